"""Replicas of the gateway are replaced and killed while callers send messages and read event streams."""

from dataclasses import dataclass

import pytest
from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.fleet import Caller, Fleet, metric, user
from e2e.scenarios.gateway_load import Load, answer_to, load, story
from tests.support.machine import ceiling

# Other scenarios call the same gateway.
pytestmark = pytest.mark.alone
AGENT = "teller"
GATEWAY = "deployment/fleetwright-gateway"
WHERE = f"--namespace={SYSTEM}"
COMPLETED, CANCELED = "TASK_STATE_COMPLETED", "TASK_STATE_CANCELED"
ENDLESS = story(1000)
"""A message whose stream is longer than the time for which a replica drains."""


@dataclass(frozen=True)
class Desk:
    """An agent, its caller, and the two replicas of the gateway between them."""

    fleet: Fleet
    caller: Caller
    token: str

    def replicas(self) -> set[str]:
        """Return the names of the gateway's pods, including those that end."""
        selector = "--selector=app.kubernetes.io/component=gateway"
        pods = self.fleet.kubectl.get("pods", WHERE, selector)["items"]
        return {pod["metadata"]["name"] for pod in pods}

    def open_requests(self) -> dict[str, int]:
        """Return the number of requests and streams that each replica forwards."""
        name = "fleetwright_gateway_open_requests"
        return {pod: int(metric(self.fleet.kubectl, pod, name, namespace=SYSTEM, port=7881)) for pod in self.replicas()}

    def is_complete(self) -> bool:
        """Return whether two replicas serve, and no other pod is left."""
        status = self.fleet.kubectl.get(GATEWAY, WHERE)["status"]
        return bool(status.get("readyReplicas") == len(self.replicas()) == 2)

    def tasks(self) -> int:
        return int(self.caller.rpc(AGENT, "ListTasks", {"pageSize": 1}, token=self.token).result["totalSize"])

    def runs(self) -> tuple[int, int]:
        """Return the numbers of the agent's tasks and of its model calls. One run of a task makes one model call."""
        return self.tasks(), self.fleet.model_calls(AGENT)


@pytest.fixture(scope="module")
def desk(fleet: Fleet) -> Desk:
    caller, token = user(fleet, AGENT, limits={"maxConcurrentTurns": 32})
    found = Desk(fleet, caller, token)
    reaches = lambda: caller.gateway_rpc(AGENT, "ListTasks", {}, token=token).status == 200  # noqa: E731
    fleet.until(reaches, "the caller reaches the agent through the gateway")
    fleet.until(found.is_complete, "two replicas serve")
    return found


def test_rolling_update_loses_no_message_and_no_stream(desk: Desk) -> None:
    """Streams that are longer than the drain break, and their readers subscribe to the tasks again.

    A replica closes the connections that callers keep, perhaps when a caller sends its next message. The caller repeats
    this message. Requests on new connections never break, because the Service does not select a replica that ends.
    """
    before, old = desk.runs(), desk.replicas()
    streams = [story(24)] * 6 + [ENDLESS] * 2
    with load(desk.caller, AGENT, token=desk.token, senders=4, streams=streams) as found:
        desk.fleet.until(lambda: len(found.of("begun")) == 8 and len(found.of("ended")) >= 4, "all callers are served")
        endless = {each["id"]: each["task"] for each in found.of("begun") if each["asked"] == ENDLESS}
        desk.fleet.kubectl.run("rollout", "restart", GATEWAY, WHERE)
        desk.fleet.kubectl.run("rollout", "status", GATEWAY, WHERE, f"--timeout={ceiling():.0f}s")
        desk.fleet.until(lambda: not old & desk.replicas(), "the old replicas have ended")
        desk.fleet.until(lambda: found.messages("resumed") == endless.keys(), "the endless streams continue")
        for task in endless.values():
            desk.caller.gateway_rpc(AGENT, "CancelTask", {"id": task}, token=desk.token)
        found.stop()
    broken = [each for each in found.of("broken") if each["kind"] != "keeper"]
    assert {each["id"] for each in broken} == endless.keys(), broken
    print(f"{len(found.of('broken')) - len(broken)} of {len(found.of('ended'))} messages were repeated")
    _check_answers(found)
    assert {each["id"] for each in found.of("ended") if each["state"] == CANCELED} == endless.keys()
    _check_runs(desk, before, len(found.of("ended")))


def test_killed_replica_breaks_no_stream_of_the_other(desk: Desk) -> None:
    """Callers whose connection broke repeat their message, or subscribe to its task."""
    before = desk.runs()
    with load(desk.caller, AGENT, token=desk.token, calls=[story(90)] * 8, streams=[story(90)] * 8) as found:
        opened: dict[str, int] = {}

        def is_shared() -> bool:
            opened.update(desk.open_requests())
            return len(found.of("begun")) == 8 and sum(opened.values()) == 16 and all(opened.values())

        desk.fleet.until(is_shared, "both replicas forward requests")
        killed = max(opened, key=lambda pod: opened[pod])
        desk.fleet.kubectl.run("delete", "pod", killed, WHERE, "--grace-period=0", "--force")
        found.stop()
    assert len(found.messages("broken")) == opened[killed], found.of("broken")
    print(f"the killed replica had {opened[killed]} of 16 requests")
    _check_answers(found)
    assert len(found.of("ended")) == 16
    _check_runs(desk, before, 16)
    desk.fleet.until(desk.is_complete, "another replica takes its place")


def _check_answers(found: Load) -> None:
    """Check that each message has its whole answer, and that no stream ended early without an error."""
    assert found.of("truncated") == found.of("lost") == []
    for each in found.of("ended"):
        if each["asked"] != ENDLESS:
            assert (each["state"], each["text"]) == (COMPLETED, answer_to(each["asked"])), each


def _check_runs(desk: Desk, before: tuple[int, int], messages: int) -> None:
    """Check that each message has one task, and that each task ran at most once."""
    tasks, calls = desk.runs()
    assert tasks - before[0] == messages
    assert calls - before[1] <= messages
