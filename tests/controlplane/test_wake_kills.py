"""Kills of the operator and of the agent in every phase of a wake: each task runs at most once, and ends.

Everything is real but the node: the operator, the gateway and the agent are processes. `WakingNode` does the work of a
kubelet.
"""

import contextlib
import json
import re
import signal
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from tests.controlplane.conftest import Operator, Space
from tests.controlplane.waking_node import WakingNode
from tests.support.controlplane.administrator import LONG_SECONDS
from tests.support.controlplane.gateway import GatewayProcess
from tests.support.machine import ceiling

pytestmark = pytest.mark.exhaustive
"""The gate contains the faults of the wake patch, and the sweep kills the operator at each write of a wake."""

COMPLETED = "TASK_STATE_COMPLETED"
WAKE = "fleetwright.dev/wake"
MERGE = "application/merge-patch+json"
_LEASES = "/apis/coordination.k8s.io/v1/namespaces/{}/leases"
_TEXT = re.compile(r"task \w+")


@dataclass
class Model:
    """A model server that counts its calls by the text of the message."""

    url: str
    calls: Counter[str] = field(default_factory=Counter)
    on_call: Callable[[], None] = lambda: None


@pytest.fixture
def model() -> Iterator[Model]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            text = next(each["content"] for each in reversed(body["messages"]) if each["role"] == "user")
            made.calls[_TEXT.findall(json.dumps(text))[-1]] += 1
            made.on_call()
            frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk"}
            delta = {"index": 0, "delta": {"content": "Done."}, "finish_reason": "stop"}
            usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
            events = [{**frame, "choices": [delta]}, {**frame, "choices": [], "usage": usage}]
            lines = "".join(f"data: {json.dumps(event)}\n\n" for event in events)
            with contextlib.suppress(ConnectionError):  # The agent was killed during the call.
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                self.wfile.write(f"{lines}data: [DONE]\n\n".encode())

        def log_request(self, code: Any = "-", size: Any = "-") -> None:
            """Log nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Model(f"http://127.0.0.1:{server.server_address[1]}/v1")
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield made
    server.shutdown()
    server.server_close()


@dataclass
class Fleet:
    space: Space
    node: WakingNode
    operator: Operator
    gateway: GatewayProcess
    model: Model
    token: str

    def sleeps(self) -> None:
        """Wait until the agent sleeps and its process has ended."""

        def is_asleep() -> bool:
            status = self.space.get("Agent", "callee").get("status", {})
            process = self.node.process
            return status.get("phase") == "Asleep" and process is not None and process.poll() is not None

        self.space.eventually(is_asleep, "the agent sleeps", promised=LONG_SECONDS)

    def send(self, text: str) -> dict[str, Any]:
        """Send a message through the gateway, and again with the same id until there is an answer."""
        message = {"messageId": f"id of {text}", "role": "ROLE_USER", "parts": [{"text": text}]}
        answer = self.space.eventually(
            lambda: self.call("SendMessage", {"message": message}), text, promised=LONG_SECONDS
        )
        return dict(answer["task"])

    def call(self, method: str, params: dict[str, Any]) -> dict[str, Any] | None:
        """Return the result; None if the gateway or the agent could not answer."""
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
        headers = {"Authorization": f"Bearer {self.token}", "Content-Type": "application/json", "A2A-Version": "1.0"}
        url = f"http://127.0.0.1:{self.gateway.port}/agents/{self.space.name}/callee/a2a"
        try:
            with urllib.request.urlopen(
                urllib.request.Request(url, data=body, headers=headers), timeout=ceiling()
            ) as answer:
                found = json.loads(answer.read())
        except urllib.error.HTTPError as error:
            with error:
                if error.code in {502, 503}:
                    return None
                raise AssertionError(error.read()) from None
        except OSError:
            return None
        assert "result" in found, found
        return dict(found["result"])

    def at(self, **hooks: Callable[[], None]) -> threading.Event:
        """Run an action at a moment of the node, once. Return an event that is set afterwards."""
        done = threading.Event()
        for name, action in hooks.items():
            setattr(self.node, name, self.once(action, done))
        return done

    @staticmethod
    def once(action: Callable[[], None], done: threading.Event | None = None) -> Callable[[], None]:
        done = done or threading.Event()

        def run() -> None:
            if not done.is_set():
                action()
                done.set()

        return run

    def kill_agent(self) -> None:
        process = self.node.process
        assert process is not None
        process.kill()
        process.wait(ceiling())

    def kill_operator(self) -> None:
        """Kill the operator, and start another one at once. Its Lease is released, so that no test waits for it."""
        self.operator.stop(signal.SIGKILL)
        vacant = {"spec": {"holderIdentity": ""}}
        self.space.admin.request("PATCH", f"{_LEASES.format(SYSTEM)}/gated-operator", vacant, MERGE)
        self.operator.start(wait=False)


@pytest.fixture
def fleet(gateway, operator_with_gateway, model, space, tmp_path: Path) -> Iterator[Fleet]:
    space.agent("callee", sleep={"afterIdle": "10s"})
    token = space.eventually(lambda: space.secret("callee-client-default").get("token"), "the client's token")
    node = WakingNode(space, "callee", tmp_path, model=model.url)
    made = Fleet(space, node, operator_with_gateway, gateway, model, token)
    try:
        made.sleeps()
        yield made
    finally:
        node.stop()


Kill = Callable[[], None]
"""The second half of a kill, which runs while the message waits. The first half runs before the message is sent."""


def kill_at_the_request(fleet: Fleet) -> Kill:
    """Kill the operator after the gateway's patch, before it has acted on it."""
    before = wake_of(fleet)
    fleet.operator.send(signal.SIGSTOP)

    def kill() -> None:
        fleet.space.eventually(lambda: wake_of(fleet) != before, "the gateway asks for a wake")
        fleet.kill_operator()

    return kill


def kill_at_the_replicas(fleet: Fleet) -> Kill:
    """Kill the operator when it has asked for a pod, before or after its status shows that."""

    def kill() -> None:
        deployment = partial(fleet.space.get, "Deployment", "callee")
        fleet.space.eventually(lambda: deployment()["spec"]["replicas"] == 1, "a pod is wanted")
        fleet.kill_operator()

    return kill


def kill_at_the_start(fleet: Fleet) -> Kill:
    """Kill the operator when the pod exists and its process has not started."""
    killed = fleet.at(before_start=fleet.kill_operator)
    return lambda: wait_for(killed)


def kill_at_readiness(fleet: Fleet) -> Kill:
    """Stop the operator before the pod is ready, and kill it when the task has begun."""
    stopped = fleet.at(before_ready=lambda: fleet.operator.send(signal.SIGSTOP))

    def kill() -> None:
        wait_for(stopped)
        fleet.space.eventually(lambda: fleet.model.calls["task status"], "the task runs", promised=LONG_SECONDS)
        fleet.kill_operator()

    return kill


def wait_for(done: threading.Event) -> None:
    assert done.wait(ceiling()), "the moment of the kill never came"


def wake_of(fleet: Fleet) -> str:
    return str(fleet.space.get("Agent", "callee")["metadata"].get("annotations", {}).get(WAKE, ""))


OPERATOR_KILLS = {
    "task request": kill_at_the_request,
    "task replicas": kill_at_the_replicas,
    "task start": kill_at_the_start,
    "task status": kill_at_readiness,
}


def test_operator_killed_in_each_phase_of_a_wake_loses_no_task(fleet):
    for text, kill in OPERATOR_KILLS.items():
        continue_kill = kill(fleet)
        with ThreadPoolExecutor(1) as pool:
            sent = pool.submit(fleet.send, text)
            continue_kill()
            task = sent.result(300)
        assert (text, task["status"]["state"], fleet.model.calls[text]) == (text, COMPLETED, 1)
        fleet.operator.wait_until_leading()
        fleet.sleeps()


def kill_the_starting_process(fleet: Fleet) -> None:
    fleet.at(after_start=fleet.kill_agent)


def kill_the_ready_process(fleet: Fleet) -> None:
    """Kill the agent when it answers as ready, and perhaps has the message already."""
    fleet.at(before_ready=fleet.kill_agent)


def kill_the_working_process(fleet: Fleet) -> None:
    """Kill the agent during the task, while it waits for its model."""
    fleet.model.on_call = fleet.once(fleet.kill_agent)


AGENT_KILLS = {
    "task starting": (kill_the_starting_process, {1}),
    "task ready": (kill_the_ready_process, {1, 2}),
    "task working": (kill_the_working_process, {2}),
}
"""By the text of the message: the kill, and how often the model may be called. A turn repeats an interrupted call."""


def test_agent_killed_while_it_wakes_completes_each_task_once(fleet):
    for text, (plan, calls) in AGENT_KILLS.items():
        starts = fleet.node.starts
        plan(fleet)
        task = fleet.send(text)
        assert (text, task["status"]["state"], fleet.node.starts) == (text, COMPLETED, starts + 2)
        made = fleet.model.calls[text]
        # The same message again is the same task, which does not run again.
        assert (text, fleet.send(text)["id"], fleet.model.calls[text]) == (text, task["id"], made)
        assert made in calls, text
        fleet.sleeps()
