"""The example team, and a team that `team expand` creates from sub-agents, answer through the gateway."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from e2e.cluster.deploy import SYSTEM
from e2e.scenarios.conftest import QUICKSTART
from e2e.scenarios.fleet import Caller, Fleet, agent, message, text_of, user

TEAM = QUICKSTART.parent / "research-team"
OILER = {
    "name": "oiler",
    "description": "Knows how wood is treated",
    "instructions": "You treat wood. Oak is oiled once a year.",
    "maxModelCalls": 9,
    "timeout": "60s",
}
Ask = Callable[[str, str], str]


@pytest.fixture(scope="module")
def caller(fleet: Fleet) -> Caller:
    """Apply the quickstart's model, the team and a lead with a sub-agent. Return a pod that reaches the gateway."""
    fleet.run("apply", "-f", str(QUICKSTART / "model.yaml"))
    fleet.run("apply", "-f", str(TEAM / "agents.yaml"))
    fleet.apply(
        agent("shop", description="Answers customers of the shop", fleet={"reach": "Direct"}, subAgents=[OILER]),
    )
    caller, _ = user(fleet, "visitor", fleet={"reach": "Direct"})
    fleet.ready("agents", "--all")
    return caller


@pytest.fixture(scope="module")
def ask(fleet: Fleet, caller: Caller) -> Ask:
    """Return a function that sends a person's message to an agent.

    It returns the text of the answer, or the whole response if no task is completed.
    """
    fleet.run("create", "serviceaccount", "ada")
    fleet.run("create", "role", "invoke", "--verb=create", "--resource=agents.fleetwright.dev/invoke")
    fleet.run("create", "rolebinding", "ada", "--role=invoke", f"--serviceaccount={fleet.namespace}:ada")
    token = fleet.run("create", "token", "ada", "--audience=fleetwright-gateway").strip()

    def send(name: str, text: str) -> str:
        answer = caller.gateway_rpc(name, "SendMessage", {"message": message(text)}, token=token)
        found = json.loads(answer.body) if answer.status == 200 else {}
        task = found.get("result", {}).get("task", {})
        is_completed = task.get("status", {}).get("state") == "TASK_STATE_COMPLETED"
        return text_of(task) if is_completed else f"{answer.status} {answer.body}"

    return send


def test_example_team_answers_a_person_through_the_gateway(ask: Ask) -> None:
    listed = ask("lead", "List the agents.")
    assert all(name in listed for name in ("materials", "prices", "writer"))
    question = 'Ask the agent "writer" "Which advice do we give about oak and chipboard?"'
    assert "lasts four times as long" in ask("lead", question)


@pytest.mark.usefixtures("caller")
def test_exported_team_can_be_applied_with_kubectl(fleet: Fleet) -> None:
    text = fleet.plugin("team", "export", "lead")
    output = fleet.kubectl.run("apply", "--dry-run=server", "--namespace=default", "-f", "-", stdin=text)
    for name in ("lead", "materials", "prices", "writer"):
        assert f"agent.fleetwright.dev/{name} created (server dry run)" in output


def test_team_is_expanded_and_collapsed_between_answers(fleet: Fleet, ask: Ask) -> None:
    """The handoff of the child contains its lead's description. A sub-agent knows it only from the handoff."""

    def answers(text: str, wanted: str) -> None:
        fleet.until(lambda: wanted in ask("shop", text), f"the lead answers: {text}")

    original, first = _spec(fleet), _revision(fleet)
    assert "agent/oiler created" in fleet.plugin("team", "expand", "shop")
    second = _next_revision(fleet, first)
    assert "subAgents" not in _spec(fleet)
    answers('Ask the agent "oiler" "How often is oak oiled?"', "oiled once a year")
    assert _has_called_child(fleet)
    fleet.until(lambda: "activity" in fleet.get("agent/oiler")["status"], "the status shows the number of tasks")

    assert "agent/oiler deleted" in fleet.plugin("team", "collapse", "shop", "--yes")
    _next_revision(fleet, second)
    collapsed = _spec(fleet)
    (entry,) = collapsed.pop("subAgents")
    own, mark, handoff = entry["instructions"].partition("\n\n<!-- fleetwright team collapse: begin of the handoff -->")
    assert mark
    assert "shop: Answers customers of the shop" in handoff
    assert {**collapsed, "subAgents": [{**entry, "instructions": own}]} == original
    answers('Give a task to the sub-agent oiler: "How often is oak oiled?"', "oiled once a year")
    answers('Give a task to the sub-agent oiler: "Which shop answers customers?"', "Answers customers of the shop")


def _spec(fleet: Fleet) -> dict[str, Any]:
    spec: dict[str, Any] = fleet.get("agent/shop")["spec"]
    return spec


def _revision(fleet: Fleet) -> str:
    return str(fleet.get("agent/shop")["status"]["revision"])


def _next_revision(fleet: Fleet, before: str) -> str:
    """Wait until another revision of the lead serves, and return it."""

    def serves() -> bool:
        found = fleet.get("agent/shop")
        is_current = found["status"].get("observedGeneration") == found["metadata"]["generation"]
        ready = next(each["status"] for each in found["status"]["conditions"] if each["type"] == "Ready")
        return bool(is_current and ready == "True" and found["status"]["revision"] != before)

    fleet.until(serves, "another revision of the lead serves")
    return _revision(fleet)


def _has_called_child(fleet: Fleet) -> bool:
    """Return whether the gateway has logged a call from the lead to its child."""
    selector = "--selector=app.kubernetes.io/component=gateway"
    text = fleet.kubectl.run("logs", f"--namespace={SYSTEM}", selector, "--tail=-1")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    wanted = (f"agent:{fleet.namespace}/shop", f"{fleet.namespace}/oiler")
    return wanted in [(each.get("caller"), each.get("agent")) for each in lines]
