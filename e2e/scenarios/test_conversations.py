"""A conversation outlives the pod of its agent: a kill, a new revision, and a suspension."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.scenarios.fleet import Caller, Fleet, agent, serves_another, text_of
from tests.support.machine import ceiling

AGENT = "clerk"
DAY = agent(AGENT, "You are the day clerk.", drainSeconds=60)
NIGHT = agent(AGENT, "You are the night clerk.", drainSeconds=60)


@dataclass(frozen=True)
class Conversation:
    """An agent that was told something by a caller. Each test leaves it running with its first spec."""

    fleet: Fleet
    caller: Caller
    token: str
    first: dict[str, Any]
    """The completed task of the first message."""

    def send(self, text: str, *, context: str = "c1", now: bool = False) -> dict[str, Any]:
        task: dict[str, Any] = self.caller.send(AGENT, text, token=self.token, context=context, now=now).result["task"]
        return task

    def task(self, identity: str) -> dict[str, Any]:
        return self.caller.task(AGENT, identity, token=self.token)

    def has_state(self, identity: str, state: str) -> Callable[[], bool]:
        return lambda: self.task(identity)["status"]["state"] == state

    def wait_until_reachable(self) -> None:
        self.fleet.until(lambda: self.caller.reaches(AGENT, token=self.token), "the agent can be called")

    def is_remembered(self) -> bool:
        return "Ida" in text_of(self.send("What is my parrot called?"))


@pytest.fixture(scope="module")
def conversation(fleet: Fleet) -> Conversation:
    fleet.apply(DAY)
    fleet.ready(f"agent/{AGENT}")
    caller, token = fleet.caller("visitor", of=AGENT), fleet.token(AGENT)
    fleet.until(lambda: caller.reaches(AGENT, token=token), "the network lets the visitor in")
    first = caller.send(AGENT, "My parrot is called Ida.", token=token, context="c1").result["task"]
    return Conversation(fleet, caller, token, first)


def test_killed_pod_keeps_finished_and_resumes_running_tasks(conversation: Conversation) -> None:
    fleet = conversation.fleet
    running = conversation.send("Tell me a story. [[pause:2]]", context="c2", now=True)["id"]
    fleet.until(conversation.has_state(running, "TASK_STATE_WORKING"), "the task is running")

    killed = fleet.pod_of(AGENT)
    fleet.run("delete", "pod", killed, "--grace-period=0", "--force")
    fleet.until(lambda: fleet.pod_of(AGENT) != killed, "another pod takes its place")
    fleet.run("wait", "--for=condition=Ready", f"pod/{fleet.pod_of(AGENT)}", f"--timeout={ceiling():.0f}s")
    conversation.wait_until_reachable()

    finished = conversation.task(conversation.first["id"])
    assert (finished["status"], text_of(finished)) == (conversation.first["status"], text_of(conversation.first))
    fleet.until(conversation.has_state(running, "TASK_STATE_COMPLETED"), "the interrupted task completes")
    assert text_of(conversation.task(running))
    assert conversation.is_remembered()


def test_running_task_finishes_before_the_next_revision_serves(conversation: Conversation) -> None:
    fleet = conversation.fleet
    before = fleet.get(f"agent/{AGENT}")["status"]["revision"]
    asked = conversation.send("Think about it [[pause:1]].", context="c3", now=True)["id"]
    fleet.apply(NIGHT)
    fleet.until(lambda: serves_another(fleet, AGENT, before), "the next revision serves")
    conversation.wait_until_reachable()
    status = conversation.task(asked)["status"]
    assert status["state"] == "TASK_STATE_COMPLETED", status.get("message", {}).get("parts")
    assert "You are the night clerk." in text_of(conversation.send("Who are you?"))
    assert conversation.is_remembered()

    fleet.apply(DAY)
    fleet.until(
        lambda: fleet.get(f"agent/{AGENT}")["status"]["revision"] == before, "the first spec is the first revision"
    )
    fleet.ready(f"agent/{AGENT}")


def test_suspended_agent_has_no_pod_and_resumes_with_its_memory(conversation: Conversation) -> None:
    fleet = conversation.fleet
    fleet.apply({**DAY, "spec": {**DAY["spec"], "suspend": True}})
    stopped = fleet.until(lambda: fleet.condition(f"agent/{AGENT}", "Available")[1] == "Suspended", "the suspension")
    print(f"the agent was suspended after {stopped:.1f} s")
    fleet.until(lambda: not fleet.get("pods", f"--selector=fleetwright.dev/agent={AGENT}")["items"], "the pod is gone")

    fleet.apply(DAY)
    fleet.ready(f"agent/{AGENT}")
    conversation.wait_until_reachable()
    assert conversation.is_remembered()
