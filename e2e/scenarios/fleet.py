"""A namespace with a fleet, used as a platform team and its callers use it: through kubectl and from pods.

Callers are pods, because the network policy admits only pods. A caller runs one small program that reads a request
from standard input and prints the result, so that a test can tell a refused connection from a refused token.
"""

import base64
import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from e2e.cluster.deploy import MAY_CALL_GATEWAY, SYSTEM
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.progress import ClusterError
from e2e.scenarios import workloads
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import PROMISED_SECONDS, wait_until

_SHOWN_LINES = 40
_ANSWER_SECONDS = 6.0
"""The time in which a caller may expect an answer. Its request ends after ten times as long."""
_CONNECT_SECONDS = 2.0
"""The time in which a connection opens, or counts as refused by a network policy. Slow machines get longer."""
_BROKEN_STREAM = "close 1006 (abnormal closure)"
"""kubectl's words for an `exec` whose stream ended before its output did."""
COST = "https://proto-labs.ai/a2a/ext/cost-v1"
GATEWAY = f"http://fleetwright-gateway.{SYSTEM}.svc.cluster.local"
_HTTP = """
import json, sys, urllib.error, urllib.request
ask = json.load(sys.stdin)
request = urllib.request.Request(ask["url"], data=ask["body"].encode() if ask["body"] else None, headers=ask["headers"])
try:
    answer = urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=ask["timeout"])
except urllib.error.HTTPError as error:
    answer = error
except OSError as error:
    print(json.dumps({"error": str(error)})); sys.exit()
print(json.dumps({"status": answer.status, "headers": {k.lower(): v for k, v in answer.headers.items()},
                  "body": answer.read().decode()}))
"""


class NoPod(Exception):  # noqa: N818 - reads as what was found
    """The agent has no pod at the moment, because one pod replaces another."""


@dataclass(frozen=True)
class Answer:
    status: int
    """0 if there was no connection or no response in time. `body` then has the reason."""
    body: str
    headers: Mapping[str, str]

    @property
    def result(self) -> Any:
        assert self.status == 200, f"status {self.status} (0: no answer): {self.body[:500]}"
        return json.loads(self.body)["result"]

    @property
    def error(self) -> int:
        return int(json.loads(self.body)["error"]["code"])

    @property
    def events(self) -> list[Any]:
        """The results of a stream, in order."""
        lines = [line.removeprefix("data:").strip() for line in self.body.splitlines() if line.startswith("data:")]
        return [json.loads(line)["result"] for line in lines]


@dataclass(frozen=True)
class Fleet:
    """One namespace. Every wait has a time limit, and its error says what was awaited."""

    kubectl: Kubectl
    namespace: str
    image: str

    def apply(self, *manifests: Mapping[str, Any]) -> None:
        text = yaml.safe_dump_all(manifests)
        self.run("apply", "-f", "-", stdin=text)

    def apply_folder(self, folder: Path) -> None:
        self.run("apply", "-f", folder)

    def run(self, *words: str | Path, stdin: str | None = None) -> str:
        return self.kubectl.run(f"--namespace={self.namespace}", *words, stdin=stdin)

    def plugin(self, *words: str) -> str:
        """Run `kubectl fleetwright` as a user does, with this checkout's CLI. Return its standard output."""
        program, config, context = self.kubectl.program, self.kubectl.kubeconfig, self.kubectl.context
        path = os.pathsep.join([str(Path(sys.executable).parent), str(program.parent), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "KUBECONFIG": str(config)}
        chosen = ["--context", context] if context else []
        command = [str(program), "fleetwright", *words, "-n", self.namespace, *chosen]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=ceiling(), check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refused(self, manifest: Mapping[str, Any]) -> str:
        """Return the error that `kubectl apply` prints for a manifest that must be refused."""
        where = f"--namespace={self.namespace}"
        done = self.kubectl.attempt("apply", where, "-f", "-", stdin=yaml.safe_dump(manifest))
        assert done.returncode != 0, "the manifest was accepted"
        return done.stderr

    def get(self, *words: str) -> Any:
        return self.kubectl.get(*words, f"--namespace={self.namespace}")

    def ready(self, *objects: str, promised: float = PROMISED_SECONDS) -> None:
        """Wait until the objects are Ready. A failure shows the state of the namespace."""
        try:
            self.run("wait", "--for=condition=Ready", *objects, f"--timeout={ceiling(promised):.0f}s")
        except ClusterError as error:
            raise AssertionError(f"not Ready: {', '.join(objects)}: {error}\n{self.overview()}") from None

    def overview(self) -> str:
        """Return the agents, the pods and the last events of the namespace, for the message of a failed wait."""
        shown = [
            self.kubectl.attempt("get", kinds, f"--namespace={self.namespace}", *more).stdout
            for kinds, more in (
                ("agents,skills,mcpservers,pods", ("-o", "wide")),
                ("events", ("--sort-by=.lastTimestamp",)),
            )
        ]
        return "\n".join("\n".join(text.splitlines()[-_SHOWN_LINES:]) for text in shown)

    def condition(self, of: str, kind: str) -> tuple[str, str, str]:
        """(status, reason, message)"""
        for condition in self.get(of).get("status", {}).get("conditions", []):
            if condition["type"] == kind:
                return condition["status"], condition["reason"], condition["message"]
        return "", "", ""

    def until(
        self,
        happened: Callable[[], Any],
        what: str,
        *,
        promised: float = PROMISED_SECONDS,
        shown: Callable[[], object] | None = None,
        pause: float = 0.3,
    ) -> float:
        """Wait until the condition holds, and return the seconds. `NoPod` counts as not yet true.

        A failure shows the result of `shown`, or the state of the namespace.
        """
        started = time.monotonic()

        def has_happened() -> bool:
            try:
                return bool(happened())
            except NoPod:
                return False

        wait_until(has_happened, what, promised=promised, shown=shown or self.overview, pause=pause)
        return time.monotonic() - started

    def token(self, agent: str, client: str = "default") -> str:
        secret = self.get("secret", f"{agent}-client-{client}")
        return base64.b64decode(secret["data"]["token"]).decode()

    def caller(self, name: str, *, of: str | None = None) -> "Caller":
        """Return a pod that may call the agent `of` and the gateway; without `of` it may call neither."""
        labels = {"fleetwright.dev/may-call": of, **MAY_CALL_GATEWAY} if of else None
        self.apply(workloads.pod(name, image=self.image, command=workloads.SLEEP, labels=labels))
        self.ready(f"pod/{name}")
        return Caller(self, name)

    def pod_of(self, agent: str) -> str:
        pods = self.get("pods", f"--selector=fleetwright.dev/agent={agent}")["items"]
        names = [pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"]]
        if len(names) != 1:
            raise NoPod(f"{agent} has {len(names)} pods")
        return str(names[0])

    def model_calls(self, agent: str) -> int:
        """Return the number of model calls that the agent has counted."""
        pod = self.pod_of(agent)
        return int(metric(self.kubectl, pod, "fleetwright_llm_calls_total", namespace=self.namespace, port=7871))

    def reaches(self, pod: str, host: str, port: int) -> bool:
        """Return True if a TCP connection from the pod opens."""
        seconds = _CONNECT_SECONDS * machine_factor()
        connect = f"import socket; socket.create_connection(({host!r}, {port}), timeout={seconds})"
        where = ("exec", pod, f"--namespace={self.namespace}", "--")
        return self.kubectl.attempt(*where, "python", "-c", connect).returncode == 0


@dataclass(frozen=True)
class Caller:
    fleet: Fleet
    pod: str

    def http(
        self, url: str, *, body: str = "", headers: Mapping[str, str] | None = None, promised: float = _ANSWER_SECONDS
    ) -> Answer:
        """Send a request. It ends without an answer after ten times the promised seconds."""
        ask = {"url": url, "body": body, "headers": dict(headers or {}), "timeout": ceiling(promised)}
        answer = json.loads(self._execute(_HTTP, json.dumps(ask)))
        return Answer(answer.get("status", 0), answer.get("body", answer.get("error", "")), answer.get("headers", {}))

    def _execute(self, program: str, stdin: str) -> str:
        """Run a Python program in the pod, and return its output. If the stream of its output breaks, run it again.

        A message that is sent again has the same id, so the agent accepts it once.
        """
        words = ("exec", "-i", self.pod, "--", "python", "-c", program)
        try:
            return self.fleet.run(*words, stdin=stdin)
        except ClusterError as error:
            if _BROKEN_STREAM not in str(error):
                raise
            return self.fleet.run(*words, stdin=stdin)

    def rpc(
        self,
        agent: str,
        method: str,
        params: Mapping[str, Any],
        *,
        token: str | None,
        promised: float = _ANSWER_SECONDS,
    ) -> Answer:
        url = f"http://{agent}.{self.fleet.namespace}.svc.cluster.local/a2a"
        return self._rpc(url, method, params, token=token, promised=promised)

    def gateway_rpc(self, agent: str, method: str, params: Mapping[str, Any], *, token: str | None) -> Answer:
        """Send a request through the gateway, which wakes the agent if it sleeps."""
        return self._rpc(self.gateway_url(agent), method, params, token=token, promised=2 * _ANSWER_SECONDS)

    def gateway_url(self, agent: str) -> str:
        return f"{GATEWAY}/agents/{self.fleet.namespace}/{agent}/a2a"

    def _rpc(self, url: str, method: str, params: Mapping[str, Any], *, token: str | None, promised: float) -> Answer:
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
        return self.http(url, body=body, headers=headers, promised=promised)

    def reaches(self, agent: str, *, token: str) -> bool:
        """Return True if the agent answers."""
        return self.status(agent, token=token) == 200

    def status(self, agent: str, *, token: str) -> int:
        """Return the HTTP status of a small request, or 0 without a connection.

        The request ends sooner than usual, because a connection to a deleted pod hangs.
        """
        return self.rpc(agent, "ListTasks", {}, token=token, promised=1).status

    def send(self, agent: str, text: str, *, token: str | None, context: str = "", now: bool = False) -> Answer:
        """Send a message. With `now` the response arrives as soon as the task is accepted."""
        params: dict[str, Any] = {"message": message(text, context=context)}
        if now:
            params["configuration"] = {"returnImmediately": True}
        return self.rpc(agent, "SendMessage", params, token=token)

    def task(self, agent: str, identity: str, *, token: str) -> dict[str, Any]:
        task: dict[str, Any] = self.rpc(agent, "GetTask", {"id": identity}, token=token).result
        return task


def user(fleet: Fleet, name: str, /, **spec: Any) -> tuple[Caller, str]:
    """Create an agent with this spec, wait until it is Ready, and return a caller and its token."""
    fleet.apply(agent(name, **spec))
    fleet.ready(f"agent/{name}")
    caller, token = fleet.caller(f"{name}-caller", of=name), fleet.token(name)
    fleet.until(lambda: caller.reaches(name, token=token), "the network lets the new caller in")
    return caller, token


def serves_another(fleet: Fleet, name: str, revision: str) -> bool:
    """Return True if the agent is Ready with its current spec, and in another revision than this one."""
    found = fleet.get(f"agent/{name}")
    ready = fleet.condition(f"agent/{name}", "Ready")[0] == "True"
    current = found["status"].get("observedGeneration") == found["metadata"]["generation"]
    return ready and current and found["status"]["revision"] != revision


def answer(caller: Caller, name: str, words: str, token: str) -> str:
    task = caller.send(name, words, token=token).result["task"]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
    return text_of(task)


def wait_for_answer(caller: Caller, name: str, words: str, token: str, *, wanted: str) -> float:
    """Ask until the answer contains the wanted text, and return the seconds.

    On a busy machine, the server of a tool may start too late for the first question, and the agent answers without it.
    """
    return caller.fleet.until(lambda: wanted in answer(caller, name, words, token), f"{name} answers {wanted!r}")


def metric(kubectl: Kubectl, pod: str, name: str, *, namespace: str, port: int) -> float:
    """Return the sum of a metric of a pod over its labels."""
    read = f"import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:{port}/metrics').read().decode())"
    text = kubectl.run("exec", pod, f"--namespace={namespace}", "--", "python", "-c", read)
    series = [line for line in text.splitlines() if line.startswith((f"{name} ", f"{name}{{"))]
    return sum(float(line.rpartition(" ")[2]) for line in series)


def message(text: str, *, context: str = "") -> dict[str, Any]:
    said = {"messageId": str(uuid.uuid4()), "role": "ROLE_USER", "parts": [{"text": text}]}
    return {**said, "contextId": context} if context else said


def text_of(task: Mapping[str, Any]) -> str:
    parts = [part for artifact in task.get("artifacts", []) for part in artifact["parts"]]
    return "".join(part.get("text", "") for part in parts)


def cost_of(task: Mapping[str, Any]) -> dict[str, Any]:
    (artifact,) = task["artifacts"]
    cost: dict[str, Any] = artifact["metadata"][COST]
    return cost


def agent(name: str, /, instructions: str = "You are the desk.", **spec: Any) -> dict[str, Any]:
    """Return an Agent that uses the offline model."""
    model = {
        "name": "offline",
        "baseURL": "http://offline-model/v1",
        "contextWindow": 128000,
        "price": {"inputPerMillion": "0.25", "outputPerMillion": "2", "cachedInputPerMillion": "0.025"},
    }
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name},
        "spec": {"instructions": instructions, "model": model | spec.pop("model", {}), **spec},
    }


def children(fleet: Fleet, *kinds: str) -> dict[str, str]:
    """Return the resourceVersion of every child of the operator in this namespace, by kind and name."""
    found = fleet.get(",".join(kinds or CHILDREN), "--selector=app.kubernetes.io/managed-by=fleetwright")["items"]
    return {f"{item['kind']}/{item['metadata']['name']}": item["metadata"]["resourceVersion"] for item in found}


CHILDREN: Sequence[str] = (
    "serviceaccounts",
    "configmaps",
    "secrets",
    "persistentvolumeclaims",
    "services",
    "networkpolicies",
)
"""The kinds that only the operator writes. A Deployment is not among them, because a controller writes its status."""
