"""An agent repairs code in its workspace: a repository is cloned, a test fails, a person approves, the test passes."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.image_list import GO_TOOLCHAIN, NODE_TOOLCHAIN, TOOLCHAINS, Image
from e2e.cluster.images import Images
from e2e.cluster.paths import CHECKOUT
from e2e.cluster.progress import Progress
from e2e.cluster.provider import Provider
from e2e.scenarios import workloads
from e2e.scenarios.fleet import Caller, Fleet, message, text_of, user
from e2e.scenarios.reviewers import decide, opened, reviewer
from tests.support.machine import ceiling, machine_factor

GIT_SERVER = Path(__file__).with_name("git_server.py").read_text()
SHOP = CHECKOUT / "examples/coding-agent/shop"
AGENT = "coder"
RUNNER_PORT = 7880
POD_SELECTOR = "--selector=fleetwright.dev/workspace=coder,app.kubernetes.io/component=workspace"
DONE, WAITING = "TASK_STATE_COMPLETED", "TASK_STATE_INPUT_REQUIRED"
REPAIR = 'Read the file "shop.py"; edit the file "shop.py" "price + count" "price * count"'
RUN = 'Run the bash command "python3 -m unittest -q"'
NODE_TEST = (
    r"printf 'require(`node:test`)(`multiplies`, () => require(`assert`).equal(6 * 7, 42))\n' > answer.test.js"
    " && node --test"
)
GO_TEST = (
    r"printf 'package answer\nimport `testing`\nfunc TestAnswer(t *testing.T) { if 6 * 7 != 42 { t.Fail() } }\n'"
    " > answer_test.go && go mod init answer && go test -vet=off"
)
ANSWER_SECONDS = 2.0
"""The time in which the proxy of the workspace answers a request."""

FETCH = """
import http.client, os, sys, urllib.error, urllib.parse, urllib.request
seconds = float(sys.argv[2])
try:
    print(urllib.request.urlopen(f"http://{sys.argv[1]}/private/skills.git/info/refs", timeout=seconds).status)
except urllib.error.HTTPError as error:
    print(error.code)
proxy = urllib.parse.urlsplit(os.environ["https_proxy"])
connection = http.client.HTTPConnection(proxy.hostname, proxy.port, timeout=seconds)
connection.request("CONNECT", f"{sys.argv[1]}:80")
print(connection.getresponse().status)
"""
"""Prints the status of a plain request and that of a tunnel, both through the proxy of the environment."""


@dataclass(frozen=True)
class Desk:
    fleet: Fleet
    caller: Caller
    token: str

    def send(self, text: str, *, context: str = "", task: str = "") -> dict[str, Any]:
        said = {**message(text, context=context), **({"taskId": task} if task else {})}
        found: dict[str, Any] = self.caller.rpc(AGENT, "SendMessage", {"message": said}, token=self.token).result[
            "task"
        ]
        return found

    def approve(self, task: dict[str, Any]) -> dict[str, Any]:
        assert task["status"]["state"] == WAITING, task
        return self.send("yes", context=task["contextId"], task=task["id"])

    def pod(self) -> str:
        pods = self.fleet.get("pods", POD_SELECTOR)["items"]
        (name,) = (pod["metadata"]["name"] for pod in pods if "deletionTimestamp" not in pod["metadata"])
        return str(name)

    def has_replacement_for(self, replaced: str) -> bool:
        """Return True if the only workspace pod is not `replaced`, and the agent can reach it."""
        pods = self.fleet.get("pods", POD_SELECTOR)["items"]
        addresses = [
            pod["status"].get("podIP") for pod in pods if _is_ready(pod) and pod["metadata"]["name"] != replaced
        ]
        agent = self.fleet.pod_of(AGENT)
        return len(addresses) == len(pods) == 1 and self.fleet.reaches(agent, str(addresses[0]), RUNNER_PORT)

    def runs(self, image: str) -> bool:
        """Return True if the only workspace pod has a shell of this image, and is ready."""
        pods = self.fleet.get("pods", POD_SELECTOR)["items"]
        return [
            container["image"]
            for pod in pods
            for container in pod["spec"]["containers"]
            if container["name"] == "shell" and _is_ready(pod)
        ] == [image]

    def shell(self, *words: str) -> str:
        return self.fleet.run("exec", self.pod(), "--container=shell", "--", *words)


def _host(fleet: Fleet) -> str:
    return f"shop-git.{fleet.namespace}.svc"


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod["status"].get("conditions", ())
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def ready(fleet: Fleet) -> bool:
    return fleet.condition(f"agent/{AGENT}", "WorkspaceReady")[0] == "True"


@pytest.fixture(scope="module")
def desk(fleet: Fleet) -> Desk:
    files = {path.name: path.read_text() for path in SHOP.iterdir() if path.is_file()}
    server = workloads.pod("shop-git", image=fleet.image, command=("python", "-c", GIT_SERVER))
    variables = {"COMMITS": json.dumps([files]), "PASSWORD": "open-sesame", "PORT": str(workloads.PORT)}
    server["spec"]["containers"][0]["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    secret = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "shop-git"},
        "stringData": {"token": "open-sesame"},
    }
    fleet.apply(server, workloads.service("shop-git"), secret, *reviewer(fleet, "anna"))
    fleet.ready("pod/shop-git")
    fleet.until(lambda: fleet.run("logs", "shop-git"), "the repository is served")
    url = f"http://{_host(fleet)}/private/skills.git"
    workspace = {
        "image": fleet.image,
        "storage": {"size": "64Mi"},
        "source": {"git": {"url": url, "secretRef": {"name": "shop-git"}}},
        "network": {"egress": [{"to": {"host": _host(fleet)}, "ports": [{"port": 80}], "why": "packages"}]},
    }
    caller, token = user(fleet, AGENT, workspace=workspace)
    waited = fleet.until(lambda: ready(fleet), "the workspace is ready")
    print(f"workspace ready {waited:.1f} s after its agent")
    return Desk(fleet, caller, token)


def test_source_is_cloned_once(desk: Desk) -> None:
    status = desk.fleet.get(f"agent/{AGENT}")["status"]["workspace"]
    assert len(status["source"]["commit"]) == 40
    assert desk.shell("ls", "/workspace").split() == ["AGENTS.md", "shop.py", "test_shop.py"]
    desk.fleet.until(
        lambda: not desk.fleet.get("pods", "--selector=app.kubernetes.io/component=workspace-clone")["items"],
        "the pod that cloned is gone",
    )


def test_agent_repairs_the_code_with_approvals(desk: Desk) -> None:
    failing = desk.approve(desk.send(RUN))
    assert failing["status"]["state"] == DONE
    assert "FAILED (failures=1)" in text_of(failing)

    waiting = desk.send(REPAIR)
    asked = json.dumps(waiting["status"]["message"])
    assert "+    return price * count" in asked
    assert desk.approve(waiting)["status"]["state"] == DONE
    assert "return price * count" in desk.shell("cat", "/workspace/shop.py")

    passing = desk.approve(desk.send(RUN))
    assert "OK" in text_of(passing)


def test_command_that_only_reads_runs_without_approval(desk: Desk) -> None:
    task = desk.send('Run the bash command "cat AGENTS.md"')
    assert task["status"]["state"] == DONE, task
    assert "whole cents" in text_of(task)


def test_person_decides_a_command_with_kubectl(desk: Desk) -> None:
    waiting = desk.send(RUN)
    assert waiting["status"]["state"] == WAITING, waiting
    name = opened(desk.fleet, waiting["id"])
    assert "unittest" in desk.fleet.get(f"approval/{name}")["spec"]["request"]["preview"]
    assert decide(desk.fleet, name, "anna", "Approved").returncode == 0

    def task() -> dict[str, Any]:
        return desk.caller.task(AGENT, waiting["id"], token=desk.token)

    desk.fleet.until(lambda: task()["status"]["state"] == DONE, "the task completes")
    assert "OK" in text_of(task())


def test_workspace_is_isolated_except_from_its_agent(desk: Desk) -> None:
    fleet = desk.fleet
    seconds = 2 * machine_factor()
    connect = f"import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout={seconds})"
    agent, workspace, server = (
        fleet.get(f"pod/{name}")["status"]["podIP"] for name in (fleet.pod_of(AGENT), desk.pod(), "shop-git")
    )
    assert fleet.reaches(desk.caller.pod, server, workloads.PORT)
    api = fleet.kubectl.get("service/kubernetes", "--namespace=default")["spec"]["clusterIP"]
    words = ("exec", desk.pod(), f"--namespace={fleet.namespace}", "--container=shell", "--", "python3", "-c", connect)
    for host, port in ((agent, 7870), (server, workloads.PORT), (api, 443)):
        done = fleet.kubectl.attempt(*words, host, str(port))
        assert "OSError" in done.stderr or "timed out" in done.stderr or "refused" in done.stderr, (host, done)
    assert not fleet.reaches(desk.caller.pod, workspace, RUNNER_PORT)
    assert fleet.reaches(fleet.pod_of(AGENT), workspace, RUNNER_PORT)


def test_shell_reaches_a_named_host_through_the_proxy_only(desk: Desk) -> None:
    """The git server answers 401 without a credential, and the proxy 403 for every host that the spec does not name."""
    status = desk.fleet.get(f"agent/{AGENT}")["status"]["workspace"]
    assert status["egress"] == [{"to": f"{_host(desk.fleet)}, TCP 80, through the egress proxy", "why": "packages"}]
    for host, code, tunnel in (
        (_host(desk.fleet), "401", "200"),
        (f"{AGENT}.{desk.fleet.namespace}.svc", "403", "403"),
    ):
        assert desk.shell("python3", "-c", FETCH, host, str(ceiling(ANSWER_SECONDS))).split() == [code, tunnel], host
    log = desk.fleet.run("logs", f"deployment/{AGENT}-egress")
    assert f"refused host={AGENT}.{desk.fleet.namespace}.svc port=80 reason='host not allowed'" in log


def test_shell_sees_no_credential_and_no_process_of_the_runner(desk: Desk) -> None:
    """The password of the git repository was used to clone it."""
    assert desk.fleet.kubectl.attempt(
        "exec", desk.pod(), f"--namespace={desk.fleet.namespace}", "--container=shell", "--",
        "grep", "-r", "open-sesame", "/workspace", "/home", "/tmp", "/run",
    ).returncode == 1  # fmt: skip
    assert "runner" not in desk.shell("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
    assert desk.shell("sh", "-c", "ls /etc/fleetwright /var/run/secrets 2>&1 || true").count("No such file") == 2


def test_workspace_keeps_its_files_when_its_pod_is_replaced(desk: Desk) -> None:
    before, agent = desk.pod(), desk.fleet.pod_of(AGENT)
    desk.fleet.run("delete", "pod", before, "--wait=true")
    # The condition may still describe the deleted pod, and the network policy admits the agent slightly later.
    desk.fleet.until(lambda: desk.has_replacement_for(before), "another pod serves the workspace")
    desk.fleet.until(lambda: ready(desk.fleet), "the workspace is ready again")
    task = desk.send('Run the bash command "cat shop.py"')
    assert "return price * count" in text_of(task)
    assert desk.fleet.pod_of(AGENT) == agent


def test_workspace_that_cannot_start_is_reported(desk: Desk) -> None:
    body = desk.fleet.get(f"agent/{AGENT}")
    image = body["spec"]["workspace"]["image"]
    patch = json.dumps({"spec": {"workspace": {"image": "localhost/nowhere:1"}}})
    desk.fleet.run("patch", f"agent/{AGENT}", "--type=merge", "-p", patch)
    desk.fleet.until(
        lambda: desk.fleet.condition(f"agent/{AGENT}", "WorkspaceReady")[1] == "ImagePull", "the image is missing"
    )
    assert desk.fleet.condition(f"agent/{AGENT}", "Ready")[0] == "True"
    assert desk.fleet.get(f"agent/{AGENT}")["status"]["phase"] == "Degraded"
    back = json.dumps({"spec": {"workspace": {"image": image}}})
    desk.fleet.run("patch", f"agent/{AGENT}", "--type=merge", "-p", back)
    desk.fleet.until(lambda: ready(desk.fleet), "the workspace is ready again")


@pytest.fixture(scope="module")
def toolchains(provider: Provider, progress: Progress) -> dict[str, str]:
    """The references of the images with toolchains, loaded into the cluster, by name."""
    engine = provider.engine()
    if engine is None:
        pytest.skip("images are pulled here, and those with toolchains are not published")
    built = Images(engine, progress, local_base=provider.local_base).build([image.name for image in TOOLCHAINS])
    provider.load(built)
    return {each.image.name: each.pinned for each in built}


@pytest.mark.parametrize(
    ("image", "command", "passed"),
    [
        pytest.param(NODE_TOOLCHAIN, NODE_TEST, "# pass 1", id="Node"),
        pytest.param(GO_TOOLCHAIN, GO_TEST, "ok", id="Go"),
    ],
)
def test_workspace_has_the_toolchain_of_its_image(
    desk: Desk, toolchains: dict[str, str], image: Image, command: str, passed: str
) -> None:
    agent = desk.fleet.pod_of(AGENT)
    patch = json.dumps({"spec": {"workspace": {"image": toolchains[image.name]}}})
    desk.fleet.run("patch", f"agent/{AGENT}", "--type=merge", "-p", patch)
    desk.fleet.until(lambda: desk.runs(toolchains[image.name]), "the workspace runs the image")
    desk.fleet.until(lambda: ready(desk.fleet), "the workspace is ready again")
    tested = desk.approve(desk.send(f'Run the bash command "{command}"'))
    assert tested["status"]["state"] == DONE
    assert passed in text_of(tested), text_of(tested)
    assert desk.fleet.pod_of(AGENT) == agent
