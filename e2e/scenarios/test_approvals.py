"""A tool call waits for a person as an object, and `kubectl patch` decides it. The agent itself may not decide."""

import json
import subprocess
from dataclasses import dataclass
from typing import Any

import pytest
from e2e.scenarios.fleet import Caller, Fleet, text_of, user

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

    def name_of(self, account: str) -> str:
        return f"system:serviceaccount:{self.fleet.namespace}:{account}"

    def ask(self) -> str:
        """Send a message that needs an approval, and return the id of the task that waits."""
        task = self.caller.send(AGENT, "Load the manners skill.", token=self.token).result["task"]
        assert task["status"]["state"] == WAITING, task
        return str(task["id"])

    def approval_of(self, task: str) -> dict[str, Any]:
        """Return the Approval of a task; empty before there is one."""
        found = self.fleet.get("approvals")["items"]
        return next((each for each in found if each["spec"]["request"]["task"] == task), {})

    def patch(self, name: str, account: str, spec: dict[str, Any]) -> "subprocess.CompletedProcess[str]":
        """Decide with plain kubectl, as one of the ServiceAccounts."""
        where, who = f"--namespace={self.fleet.namespace}", f"--as={self.name_of(account)}"
        document = json.dumps({"spec": spec})
        return self.fleet.kubectl.attempt("patch", "approval", name, "--type=merge", "-p", document, where, who)

    def state(self, task: str) -> str:
        return str(self.caller.task(AGENT, task, token=self.token)["status"]["state"])


@pytest.fixture(scope="module")
def desk(fleet: Fleet) -> Desk:
    def may_edit(account: str) -> dict[str, Any]:
        return {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "RoleBinding",
            "metadata": {"name": f"{account}-edits"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "edit"},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": fleet.namespace}],
        }

    anna = {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "anna"}}
    fleet.apply(SKILL, anna, may_edit("anna"), may_edit(AGENT))
    caller, token = user(fleet, AGENT, skills=[{"name": "manners"}], approvals={"tools": ["load_skill"]})
    return Desk(fleet, caller, token)


def test_person_decides_with_kubectl_patch_and_the_task_continues(desk: Desk) -> None:
    task = desk.ask()
    waited = desk.fleet.until(lambda: desk.approval_of(task), "the approval exists", seconds=15)
    print(f"approval after {waited:.1f} s")
    assert waited < 5
    approval = desk.approval_of(task)
    name, request = approval["metadata"]["name"], approval["spec"]["request"]
    assert (request["agent"], request["tool"]) == (AGENT, "load_skill")
    assert desk.name_of(AGENT) in request["forbiddenDeciders"]

    refused = desk.patch(name, AGENT, {"decision": "Approved", "decidedBy": desk.name_of(AGENT)})
    assert refused.returncode != 0
    assert "may not decide" in refused.stderr
    false_name = desk.patch(name, AGENT, {"decision": "Approved", "decidedBy": desk.name_of("anna")})
    assert "your own username" in false_name.stderr
    assert desk.state(task) == WAITING

    done = desk.patch(name, "anna", {"decision": "Approved", "decidedBy": desk.name_of("anna")})
    assert done.returncode == 0, done.stderr
    waited = desk.fleet.until(lambda: desk.state(task) == "TASK_STATE_COMPLETED", "the task completes", seconds=30)
    print(f"completed after {waited:.1f} s")
    assert RULE in text_of(desk.caller.task(AGENT, task, token=desk.token))
    desk.fleet.until(lambda: "delivered" in desk.approval_of(task)["status"], "the delivery is recorded", seconds=15)
    assert desk.approval_of(task)["status"]["phase"] == "Approved"

    again = desk.patch(name, "anna", {"decision": "Denied"})
    assert f"{desk.name_of('anna')} has already decided Approved" in again.stderr


def test_denial_with_a_reason_keeps_the_tool_from_running(desk: Desk) -> None:
    task = desk.ask()
    desk.fleet.until(lambda: desk.approval_of(task), "the approval exists", seconds=15)
    name = desk.approval_of(task)["metadata"]["name"]
    denied = {"decision": "Denied", "decidedBy": desk.name_of("anna"), "reason": "Not today"}
    assert desk.patch(name, "anna", denied).returncode == 0
    desk.fleet.until(lambda: desk.state(task) != WAITING, "the task continues", seconds=30)
    assert RULE not in text_of(desk.caller.task(AGENT, task, token=desk.token))
    desk.fleet.until(
        lambda: desk.approval_of(task)["status"]["phase"] == "Denied", "the denial is recorded", seconds=15
    )


def test_cancelled_task_withdraws_its_approval(desk: Desk) -> None:
    task = desk.ask()
    desk.fleet.until(lambda: desk.approval_of(task), "the approval exists", seconds=15)
    assert desk.caller.rpc(AGENT, "CancelTask", {"id": task}, token=desk.token).status == 200
    desk.fleet.until(
        lambda: desk.approval_of(task)["status"].get("phase") == "Withdrawn", "the approval is withdrawn", seconds=15
    )
