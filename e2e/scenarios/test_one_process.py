"""One process for each memory: pods of an agent that overlap run no tool twice, and keep what they finish in time."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster.local import Local
from e2e.cluster.provider import Provider
from e2e.scenarios.fleet import Caller, Fleet, agent, text_of

AGENT, SERVER = "dispatch", "tracker"
TRACKER = (Path(__file__).parent / "tracker.py").read_text()
SECONDS = 15
"""The duration of a call of the tool: long enough for the next pod to start meanwhile."""
MANIFEST = agent(AGENT, "You track parcels.", mcpServers=[{"name": SERVER}], drainSeconds=120)
MEMORY_USER = """
import os, pathlib, sys, time
pathlib.Path(sys.argv[1]).write_text(str(os.getpid()))
used = []
while os.path.exists(f"/proc/{sys.argv[2]}") and len(used) * 2**22 < int(sys.argv[3]):
    used.append(b"x" * 2**22)
    time.sleep(0.002)
"""
"""Uses memory in the control group of another process. The kernel prefers the process of a pod (`oom_score_adj`)."""
_parcels = count(1)


@dataclass(frozen=True)
class TrackingAgent:
    """An agent with a tool that logs its calls, and a caller."""

    fleet: Fleet
    caller: Caller
    token: str

    def start_tracking(self) -> tuple[str, str]:
        """Send a message whose task calls the tool, and wait for the call. Return the parcel and the task's id."""
        parcel = f"P-{next(_parcels)}"
        sent = self.caller.send(AGENT, f"Track the parcel {parcel}.", token=self.token, now=True)
        self.fleet.until(lambda: self.calls(parcel) == 1, f"the tool is called for {parcel}")
        return parcel, sent.result["task"]["id"]

    def calls(self, parcel: str) -> int:
        lines = self.fleet.run("logs", f"deployment/{SERVER}-mcp", "--tail=-1").splitlines()
        return lines.count(f"called {parcel}")

    def wait_for_result(self, task: str) -> dict[str, Any]:
        """Wait until another pod serves and the task rests, and return the task."""
        self.fleet.ready(f"agent/{AGENT}")
        self.fleet.until(lambda: self.caller.reaches(AGENT, token=self.token), "the agent can be called")
        self.fleet.until(lambda: self._rests(task), "the task rests")
        return self.caller.task(AGENT, task, token=self.token)

    def _rests(self, task: str) -> bool:
        state = self.caller.task(AGENT, task, token=self.token)["status"]["state"]
        return state not in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}


@pytest.fixture(scope="module")
def tracking(fleet: Fleet) -> TrackingAgent:
    environment = [{"name": "SECONDS", "value": str(SECONDS)}]
    workload = {"image": fleet.image, "command": ["python", "-c", TRACKER], "env": environment}
    server = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": "McpServer", "metadata": {"name": SERVER}}
    fleet.apply({**server, "spec": {"workload": workload}}, MANIFEST)
    fleet.ready(f"mcpserver/{SERVER}", f"agent/{AGENT}")
    caller, token = fleet.caller("sender", of=AGENT), fleet.token(AGENT)
    fleet.until(lambda: caller.reaches(AGENT, token=token), "the network lets the sender in")
    return TrackingAgent(fleet, caller, token)


def delete(fleet: Fleet, pod: str) -> None:
    fleet.run("delete", "pod", pod, "--wait=false")


def evict(fleet: Fleet, pod: str) -> None:
    body = f'{{"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {{"name": "{pod}"}}}}'
    fleet.run("create", "--raw", f"/api/v1/namespaces/{fleet.namespace}/pods/{pod}/eviction", "-f", "-", stdin=body)


def scale(fleet: Fleet, _: str) -> None:
    """The operator sets the number of replicas back to one."""
    fleet.run("scale", f"deployment/{AGENT}", "--replicas=0")


def restart(fleet: Fleet, _: str) -> None:
    fleet.run("rollout", "restart", f"deployment/{AGENT}")


def roll_out(fleet: Fleet, pod: str) -> None:
    fleet.apply({**MANIFEST, "spec": {**MANIFEST["spec"], "instructions": f"You follow parcels, after {pod}."}})


def suspend(fleet: Fleet, _: str) -> None:
    fleet.apply({**MANIFEST, "spec": {**MANIFEST["spec"], "suspend": True}})
    fleet.until(lambda: fleet.condition(f"agent/{AGENT}", "Available")[1] == "Suspended", "the suspension")
    fleet.apply(MANIFEST)


def drain(fleet: Fleet, pod: str) -> None:
    """The node has no other pod that is evicted, and the next pod can start only when the node is uncordoned."""
    node = fleet.get(f"pod/{pod}")["spec"]["nodeName"]
    try:
        # `drain` ends when the evicted pod has ended, after the call of the tool.
        fleet.run("drain", node, f"--pod-selector=fleetwright.dev/agent={AGENT}", "--delete-emptydir-data")
    finally:
        fleet.run("uncordon", node)


INTERRUPTIONS = [delete, evict, scale, restart, roll_out, suspend, pytest.param(drain, marks=pytest.mark.alone)]


@pytest.mark.parametrize("interrupt", INTERRUPTIONS)
def test_interrupted_pod_keeps_its_result_and_runs_no_tool_twice(
    tracking: TrackingAgent, interrupt: Callable[[Fleet, str], None]
) -> None:
    parcel, task = tracking.start_tracking()
    before = tracking.fleet.pod_of(AGENT)
    interrupt(tracking.fleet, before)
    tracking.fleet.until(partial(_is_replaced, tracking.fleet, before), "another pod takes its place")
    check_result(tracking, parcel, task)


def check_result(tracking: TrackingAgent, parcel: str, task: str) -> None:
    """Check that the task completes with the place of the parcel, and that the tool was called once."""
    done = tracking.wait_for_result(task)
    assert done["status"]["state"] == "TASK_STATE_COMPLETED", done["status"]
    assert f"{parcel} is in Oslo." in text_of(done)
    assert tracking.calls(parcel) == 1


def _is_replaced(fleet: Fleet, before: str) -> bool:
    return fleet.pod_of(AGENT) != before


def end_process(fleet: Fleet, pod: str, _: Provider) -> None:
    os.kill(_find_process(fleet, pod), signal.SIGKILL)


def use_up_memory(fleet: Fleet, pod: str, _: Provider) -> None:
    """Use the memory of the container until the kernel ends the agent, and check that this was the reason."""
    process = _find_process(fleet, pod)
    folder = _find_memory_cgroup(process)
    limit = _read_memory_limit(folder)
    words = (str(folder / "cgroup.procs"), str(process), str(limit))
    with subprocess.Popen([sys.executable, "-c", MEMORY_USER, *words], stderr=subprocess.PIPE, text=True) as user:
        try:
            fleet.until(
                lambda: user.poll() is not None or not Path(f"/proc/{process}").exists(), "the kernel ends the agent"
            )
        finally:
            user.kill()
        assert not Path(f"/proc/{process}").exists(), f"the other process has ended: {user.communicate()[1]}"
    fleet.until(lambda: "OOMKilled" in _read_termination_reasons(fleet, pod), "the kubelet reports the reason")


def restart_node(fleet: Fleet, pod: str, provider: Provider) -> None:
    """Only the agent's pod loses its processes, because other scenarios have pods on this node."""
    assert isinstance(provider, Local)
    processes = _list_processes(fleet, pod)
    assert processes
    with provider.stopped_node():
        for process in processes:
            with suppress(ProcessLookupError):  # The kernel has ended it with the first process of its namespace.
                os.kill(process, signal.SIGKILL)


KILLS = [end_process, use_up_memory, pytest.param(restart_node, marks=pytest.mark.alone)]


@pytest.mark.parametrize("kill", KILLS)
def test_killed_process_repeats_no_call(
    tracking: TrackingAgent, provider: Provider, kill: Callable[[Fleet, str, Provider], None]
) -> None:
    _require_visible_processes(provider)
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    pod = fleet.pod_of(AGENT)
    restarts = _restarts(fleet, pod)
    kill(fleet, pod, provider)
    fleet.until(lambda: _restarts(fleet, pod) == restarts + 1, "the kubelet starts the container again")
    assert fleet.pod_of(AGENT) == pod
    ended = tracking.wait_for_result(task)["status"]
    assert ended["state"] in {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}
    assert tracking.calls(parcel) == 1


def test_process_that_stands_still_keeps_its_memory_and_its_result(tracking: TrackingAgent, provider: Provider) -> None:
    _require_visible_processes(provider)
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    pod = fleet.pod_of(AGENT)
    process = _find_process(fleet, pod)
    os.kill(process, signal.SIGSTOP)
    try:
        delete(fleet, pod)
        fleet.until(lambda: fleet.condition(f"agent/{AGENT}", "Ready")[1] == "WaitingForMemory", "the wait is reported")
    finally:
        os.kill(process, signal.SIGCONT)
    fleet.until(partial(_is_replaced, fleet, pod), "another pod takes its place")
    check_result(tracking, parcel, task)


def _require_visible_processes(provider: Provider) -> None:
    if not isinstance(provider, Local):
        pytest.skip("only the processes of the local cluster can be reached from here")


def _restarts(fleet: Fleet, pod: str) -> int:
    return sum(each["restartCount"] for each in fleet.get(f"pod/{pod}")["status"]["containerStatuses"])


def _read_termination_reasons(fleet: Fleet, pod: str) -> list[str]:
    """Return the reasons for which the containers of a pod ended, the last one of each."""
    statuses = fleet.get(f"pod/{pod}")["status"]["containerStatuses"]
    states = [state for status in statuses for state in (status["state"], status.get("lastState", {}))]
    return [state["terminated"]["reason"] for state in states if "terminated" in state]


def _find_process(fleet: Fleet, pod: str) -> int:
    """Return the id of the agent's process on the node, which shares the kernel with the tests."""
    for process in _list_processes(fleet, pod):
        with suppress(OSError):  # The process has ended.
            if b"fleetwright-agent" in Path(f"/proc/{process}/cmdline").read_bytes():
                return process
    raise LookupError(f"no process of pod {pod} is visible here")


def _list_processes(fleet: Fleet, pod: str) -> list[int]:
    uid = fleet.get(f"pod/{pod}")["metadata"]["uid"]
    processes = []
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # The process has ended.
            if re.search(uid.replace("-", "[-_]"), (folder / "cgroup").read_text()):
                processes.append(int(folder.name))
    return processes


def _find_memory_cgroup(process: int) -> Path:
    """Return the folder of the control group that limits the memory of a process, in version 1 or 2 (cgroups(7))."""
    groups = [line.split(":", 2) for line in Path(f"/proc/{process}/cgroup").read_text().splitlines()]
    by_controller = {name: path for _, controllers, path in groups for name in controllers.split(",")}
    if "memory" in by_controller:
        return Path("/sys/fs/cgroup/memory" + by_controller["memory"])
    return Path("/sys/fs/cgroup" + by_controller[""])


def _read_memory_limit(folder: Path) -> int:
    """Return the memory limit of a control group of version 1 or 2, in bytes."""
    limit = next(file for name in ("memory.max", "memory.limit_in_bytes") if (file := folder / name).exists())
    return int(limit.read_text())


def test_next_pod_waits_for_the_memory_and_says_so(tracking: TrackingAgent) -> None:
    """The deleted pod finishes its task meanwhile."""
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    before = fleet.pod_of(AGENT)
    delete(fleet, before)
    fleet.until(lambda: fleet.condition(f"agent/{AGENT}", "Ready")[1] == "WaitingForMemory", "the wait is reported")
    assert f"pod {before!r} still uses the memory volume" in fleet.condition(f"agent/{AGENT}", "Ready")[2]
    assert fleet.get(f"agent/{AGENT}")["status"]["phase"] == "Pending"
    assert tracking.wait_for_result(task)["status"]["state"] == "TASK_STATE_COMPLETED"
    assert tracking.calls(parcel) == 1


def test_killed_pod_does_not_repeat_the_call_that_it_made(tracking: TrackingAgent) -> None:
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    before = fleet.pod_of(AGENT)
    fleet.run("delete", "pod", before, "--grace-period=0", "--force")
    fleet.until(partial(_is_replaced, fleet, before), "another pod takes its place")
    ended = tracking.wait_for_result(task)["status"]
    # A pod that the API server forgets at once may still drain, and then completes its task.
    assert ended["state"] in {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}
    assert tracking.calls(parcel) == 1
