"""A tool call waits for a person as an object, and `kubectl patch` decides it. The agent itself may not decide."""

from dataclasses import dataclass

import pytest
from e2e.scenarios.fleet import Caller, Fleet, text_of, user
from e2e.scenarios.reviewers import approval_of, decide, may_edit, opened, reviewer, username
from e2e.scenarios.sleeping import allow_sleep, wait_for_sleep

AGENT = "polite"
WAITING = "TASK_STATE_INPUT_REQUIRED"
RULE = "Say please."
SKILL = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Skill",
    "metadata": {"name": "manners"},
    "spec": {
        "source": {
            "inline": {"files": {"SKILL.md": f"---\nname: manners\ndescription: How to speak\n---\n{RULE}\n"}},
        }
    },
}


@dataclass(frozen=True)
class Desk:
    """An agent whose calls of `load_skill` need approval, its caller, and the users of the namespace."""

    fleet: Fleet
    caller: Caller
    token: str

    def ask(self) -> str:
        """Send a message that needs an approval, and return the id of the task that waits."""
        task = self.caller.send(AGENT, "Load the manners skill.", token=self.token).result["task"]
        assert task["status"]["state"] == WAITING, task
        return str(task["id"])

    def state(self, task: str) -> str:
        return str(self.caller.task(AGENT, task, token=self.token)["status"]["state"])


@pytest.fixture(scope="module")
def desk(fleet: Fleet) -> Desk:
    fleet.apply(SKILL, *reviewer(fleet, "anna"), may_edit(fleet, AGENT))
    caller, token = user(fleet, AGENT, skills=[{"name": "manners"}], approvals={"tools": ["load_skill"]})
    return Desk(fleet, caller, token)


def test_person_decides_with_kubectl_patch_and_the_task_continues(desk: Desk) -> None:
    task = desk.ask()
    name = opened(desk.fleet, task)
    request = approval_of(desk.fleet, task)["spec"]["request"]
    assert (request["agent"], request["tool"]) == (AGENT, "load_skill")
    assert username(desk.fleet, AGENT) in request["forbiddenDeciders"]

    refused = decide(desk.fleet, name, AGENT, "Approved")
    assert refused.returncode != 0
    assert "may not decide" in refused.stderr
    false_name = decide(desk.fleet, name, AGENT, "Approved", decidedBy=username(desk.fleet, "anna"))
    assert "your own username" in false_name.stderr
    assert desk.state(task) == WAITING

    done = decide(desk.fleet, name, "anna", "Approved")
    assert done.returncode == 0, done.stderr
    waited = desk.fleet.until(lambda: desk.state(task) == "TASK_STATE_COMPLETED", "the task completes", promised=5)
    print(f"completed after {waited:.1f} s")
    assert RULE in text_of(desk.caller.task(AGENT, task, token=desk.token))
    desk.fleet.until(lambda: "delivered" in approval_of(desk.fleet, task)["status"], "the delivery is recorded")
    assert approval_of(desk.fleet, task)["status"]["phase"] == "Approved"

    again = decide(desk.fleet, name, "anna", "Denied")
    assert f"{username(desk.fleet, 'anna')} has already decided Approved at 20" in again.stderr


def test_denial_with_a_reason_keeps_the_tool_from_running(desk: Desk) -> None:
    task = desk.ask()
    name = opened(desk.fleet, task)
    assert decide(desk.fleet, name, "anna", "Denied", reason="Not today").returncode == 0
    desk.fleet.until(lambda: desk.state(task) != WAITING, "the task continues")
    assert RULE not in text_of(desk.caller.task(AGENT, task, token=desk.token))
    desk.fleet.until(lambda: approval_of(desk.fleet, task)["status"]["phase"] == "Denied", "the denial is recorded")


def test_cancelled_task_withdraws_its_approval(desk: Desk) -> None:
    task = desk.ask()
    opened(desk.fleet, task)
    assert desk.caller.rpc(AGENT, "CancelTask", {"id": task}, token=desk.token).status == 200
    desk.fleet.until(
        lambda: approval_of(desk.fleet, task)["status"].get("phase") == "Withdrawn",
        "the approval is withdrawn",
    )


def test_decision_wakes_the_agent_that_asked(desk: Desk) -> None:
    allow_sleep(desk.fleet, AGENT)
    task = desk.ask()
    name = opened(desk.fleet, task)
    wait_for_sleep(desk.fleet, AGENT)
    assert decide(desk.fleet, name, "anna", "Approved").returncode == 0
    waited = desk.fleet.until(
        lambda: "delivered" in approval_of(desk.fleet, task)["status"], "the delivery is recorded"
    )
    print(f"delivered to a sleeping agent after {waited:.1f} s")
    desk.fleet.until(lambda: desk.state(task) == "TASK_STATE_COMPLETED", "the task completes")
    assert text_of(desk.caller.task(AGENT, task, token=desk.token)).count(RULE) == 1
