"""One process for each memory: pods of an agent that overlap run no tool twice, and keep what they finish in time."""

import os
import re
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from e2e.scenarios.fleet import Caller, Fleet, agent, text_of

AGENT, SERVER = "dispatch", "tracker"
TRACKER = (Path(__file__).parent / "tracker.py").read_text()
SECONDS = 15
"""The duration of a call of the tool: long enough for the next pod to start meanwhile."""
MANIFEST = agent(AGENT, "You track parcels.", mcpServers=[{"name": SERVER}], drainSeconds=120)
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


def test_process_that_the_kernel_kills_repeats_no_call(tracking: TrackingAgent) -> None:
    """SIGKILL from the node ends the process as the kernel does when the memory of its container is used up."""
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    pod = fleet.pod_of(AGENT)
    restarts = _restarts(fleet, pod)
    os.kill(_process_of(fleet, pod), signal.SIGKILL)
    fleet.until(lambda: _restarts(fleet, pod) == restarts + 1, "the kubelet starts the container again")
    assert fleet.pod_of(AGENT) == pod
    ended = tracking.wait_for_result(task)["status"]
    assert ended["state"] in {"TASK_STATE_COMPLETED", "TASK_STATE_FAILED"}
    assert tracking.calls(parcel) == 1


def test_process_that_stands_still_keeps_its_memory_and_its_result(tracking: TrackingAgent) -> None:
    fleet = tracking.fleet
    parcel, task = tracking.start_tracking()
    pod = fleet.pod_of(AGENT)
    process = _process_of(fleet, pod)
    os.kill(process, signal.SIGSTOP)
    try:
        delete(fleet, pod)
        fleet.until(lambda: fleet.condition(f"agent/{AGENT}", "Ready")[1] == "WaitingForMemory", "the wait is reported")
    finally:
        os.kill(process, signal.SIGCONT)
    fleet.until(partial(_is_replaced, fleet, pod), "another pod takes its place")
    check_result(tracking, parcel, task)


def _restarts(fleet: Fleet, pod: str) -> int:
    return sum(each["restartCount"] for each in fleet.get(f"pod/{pod}")["status"]["containerStatuses"])


def _process_of(fleet: Fleet, pod: str) -> int:
    """Return the id of the agent's process on the node, which shares the kernel with the tests."""
    uid = fleet.get(f"pod/{pod}")["metadata"]["uid"]
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            cgroup, command = (folder / "cgroup").read_text(), (folder / "cmdline").read_bytes()
        except OSError:  # The process has ended.
            continue
        if re.search(uid.replace("-", "[-_]"), cgroup) and b"fleetwright-agent" in command:
            return int(folder.name)
    pytest.skip("the node's processes are not visible here")


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
