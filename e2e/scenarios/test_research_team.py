"""The example team, applied as its README says, answers a person through the gateway."""

import json

import pytest
from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.conftest import QUICKSTART
from e2e.scenarios.fleet import Caller, Fleet, message, text_of, user

GATEWAY = f"http://fleetwright-gateway.{SYSTEM}.svc.cluster.local"
TEAM = QUICKSTART.parent / "research-team"


@pytest.fixture(scope="module")
def caller(fleet: Fleet) -> Caller:
    """Apply the quickstart's model and the team. Return a pod that reaches the gateway."""
    fleet.run("apply", "-f", str(QUICKSTART / "model.yaml"))
    fleet.run("apply", "-f", str(TEAM / "agents.yaml"))
    caller, _ = user(fleet, "visitor", fleet={"reach": "Direct"})
    fleet.ready("agents", "--all", seconds=180)
    return caller


def test_example_team_answers_a_person_through_the_gateway(fleet: Fleet, caller: Caller) -> None:
    fleet.run("create", "serviceaccount", "ada")
    fleet.run("create", "role", "invoke", "--verb=create", "--resource=agents.fleetwright.dev/invoke")
    fleet.run("create", "rolebinding", "ada", "--role=invoke", f"--serviceaccount={fleet.namespace}:ada")
    token = fleet.run("create", "token", "ada", "--audience=fleetwright-gateway").strip()

    def ask(text: str) -> str:
        body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message(text)}})
        headers = {"Content-Type": "application/json", "A2A-Version": "1.0", "Authorization": f"Bearer {token}"}
        answer = caller.http(f"{GATEWAY}/agents/{fleet.namespace}/lead/a2a", body=body, headers=headers, timeout=60)
        task = answer.result["task"]
        assert task["status"]["state"] == "TASK_STATE_COMPLETED", task
        return text_of(task)

    listed = ask("List the agents.")
    assert all(name in listed for name in ("materials", "prices", "writer"))
    question = 'Ask the agent "writer" "Which advice do we give about oak and chipboard?"'
    assert "lasts four times as long" in ask(question)
