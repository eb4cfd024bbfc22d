"""The quickstart, applied with kubectl, becomes two agents that answer, delegate, and report their cost."""

import json
import time

import pytest
from e2e.cluster import commands, deploy
from e2e.cluster.kubectl import Kubectl
from e2e.cluster.progress import Progress
from e2e.scenarios.conftest import QUICKSTART
from e2e.scenarios.fleet import Caller, Fleet, cost_of, message, text_of


@pytest.fixture(scope="module")
def quickstart(fleet: Fleet) -> tuple[Fleet, Caller, str]:
    started = time.monotonic()
    fleet.apply_folder(QUICKSTART)
    fleet.ready("agents", "--all")
    print(f"from kubectl apply to Ready: {time.monotonic() - started:.1f} s")
    return fleet, fleet.caller("caller", of="support"), fleet.token("support")


def test_objects_show_the_state_and_the_reason_for_each_connection(
    quickstart: tuple[Fleet, Caller, str],
) -> None:
    fleet, _, _ = quickstart
    header, *rows = fleet.run("get", "agents").splitlines()
    assert header.split() == ["NAME", "URL", "MODEL", "PHASE", "READY", "AGE"]
    shown = {row.split()[0]: row.split()[1:5] for row in rows}
    # The agents may start before their MCP server accepts connections, which does not degrade them.
    assert shown["support"] == [f"http://support.{fleet.namespace}.svc.cluster.local", "offline", "Running", "True"]
    egress = {way["why"]: way["to"] for way in fleet.get("agent/support")["status"]["egress"]}
    assert egress.pop("to resolve names")
    assert egress == {
        "model offline": f"pods of Service {fleet.namespace}/offline-model, port http",
        "McpServer orders": "pods of McpServer orders, port 8000",
        "peer warehouse": "pods of Agent warehouse, port 7870",
    }


def test_mcp_server_ingress_denies_pods_that_are_not_its_agents(quickstart: tuple[Fleet, Caller, str]) -> None:
    fleet, _, _ = quickstart
    stranger = fleet.caller("stranger").pod
    fleet.until(lambda: fleet.reaches(fleet.pod_of("support"), "orders-mcp", 8000), "its agent reaches the server")
    fleet.until(lambda: fleet.reaches(stranger, "offline-model", 80), "the stranger has a network")
    assert not fleet.reaches(stranger, "orders-mcp", 8000)
    assert not fleet.reaches(fleet.pod_of("warehouse"), "orders-mcp", 8000)


def test_message_is_answered_with_a_skill_a_tool_and_its_cost(quickstart: tuple[Fleet, Caller, str]) -> None:
    fleet, caller, token = quickstart
    fleet.until(lambda: caller.http(_card(fleet), promised=0.3).status == 200, "the network lets the new caller in")
    task = caller.send("support", "Load the refund-policy skill, then look up order A-1002.", token=token).result[
        "task"
    ]
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "39.50 USD" in text_of(task)
    assert "Goods that arrived broken: refund in full" in text_of(task)
    cost = cost_of(task)
    assert cost["success"] is True
    assert cost["costUsd"] > 0


def test_stream_ends_once_with_the_full_answer_and_its_cost(quickstart: tuple[Fleet, Caller, str]) -> None:
    fleet, caller, token = quickstart
    fleet.until(lambda: caller.http(_card(fleet), promised=0.3).status == 200, "the network lets the new caller in")
    params = {"message": message("Good morning to everybody")}
    events = caller.rpc("support", "SendStreamingMessage", params, token=token).events
    states = [event["statusUpdate"]["status"]["state"] for event in events if "statusUpdate" in event]
    assert "task" in events[0]
    assert states[-1] == "TASK_STATE_COMPLETED"
    assert states.count("TASK_STATE_COMPLETED") == 1
    last = [event["artifactUpdate"] for event in events if "artifactUpdate" in event][-1]
    assert last["lastChunk"] is True
    assert "Good morning to everybody" in last["artifact"]["parts"][0]["text"]


def test_peer_delegation_reports_the_cost_of_both_agents(quickstart: tuple[Fleet, Caller, str]) -> None:
    fleet, caller, token = quickstart
    fleet.until(lambda: caller.http(_card(fleet), promised=0.3).status == 200, "the network lets the new caller in")
    question = "Ask the warehouse when the standing desk can be sent."
    task = caller.send("support", question, token=token).result["task"]
    assert "sent on the next Thursday" in text_of(task)
    cost = cost_of(task)
    (peer_cost,) = cost["peersCostUsd"].values()
    assert cost["costUsd"] > 0
    assert float(peer_cost) > 0


def _card(fleet: Fleet) -> str:
    return f"http://support.{fleet.namespace}.svc.cluster.local/.well-known/agent-card.json"


def test_kubectl_plugin_lists_explains_and_rotates(quickstart: tuple[Fleet, Caller, str]) -> None:
    fleet, _, token = quickstart
    assert {row.split()[0] for row in fleet.plugin("agents").splitlines()[1:]} == {"support", "warehouse"}
    why = fleet.plugin("why", "support")
    assert "pods of McpServer orders, port 8000" in why
    assert "ask_warehouse" in why
    tasks = json.loads(fleet.plugin("tasks", "support", "-o", "json"))
    assert {task["state"] for task in tasks} == {"completed"}
    answer = fleet.plugin("run", "warehouse", "Good morning")
    assert answer.strip()
    assert "has a new token" in fleet.plugin("token", "rotate", "support", "--wait", "60")
    assert fleet.token("support") != token


def test_make_up_ends_with_one_answered_message(
    operator: Kubectl, python_image: str, progress: Progress, capsys: pytest.CaptureFixture[str]
) -> None:
    """The steps of `make up` after the installation, which the fixtures of all scenarios make."""
    existed = operator.run("get", "namespace", deploy.QUICKSTART, "--ignore-not-found")
    try:
        commands.try_quickstart(operator, python_image, progress)
    finally:
        if not existed:
            operator.run("delete", "namespace", deploy.QUICKSTART, "--ignore-not-found", "--wait=false")
    shown = capsys.readouterr().out
    assert "[completed; " in shown
    assert "39.50 USD" in shown
    assert {"support", "warehouse"} <= {line.split()[0] for line in shown.splitlines() if line.strip()}
