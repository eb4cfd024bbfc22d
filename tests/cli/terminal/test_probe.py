"""`fleetwright probe`: a sound server passes, and each fault fails the check that looks for it."""

import json
from typing import Any

import httpx
import pytest
from tests.support.cli.dev_run import run_fleetwright
from tests.support.cli.fleet import environment

from fleetwright_cli.conformance.checks import CHECKS, ProbeState, endpoint_of
from fleetwright_cli.conformance.connection import ProbedServer

CARD = {
    "name": "desk",
    "description": "Answers.",
    "version": "1",
    "capabilities": {"streaming": True, "pushNotifications": True},
    "defaultInputModes": ["text/plain"],
    "defaultOutputModes": ["text/plain"],
    "skills": [],
    "securitySchemes": {"bearer": {}},
    "supportedInterfaces": [{"protocolBinding": "JSONRPC", "protocolVersion": "1.0", "url": "https://x.example/a2a"}],
}
TASK = {"id": "t1", "contextId": "c1", "status": {"state": "TASK_STATE_COMPLETED"}}
ERRORS = {"CancelTask": -32002, "NoSuchMethod": -32601, "CreateTaskPushNotificationConfig": -32602}
RESULTS: dict[str, Any] = {"ListTasks": {"tasks": [TASK]}}


def reply_to(request: httpx.Request, faults: dict[str, Any]) -> httpx.Response:
    """Answer as a sound server does, except for the methods of `faults`."""
    if request.url.path.endswith("agent-card.json"):
        return httpx.Response(200, json=faults.get("card", CARD))
    assert request.url.host == "agent.test"
    assert request.url.path == "/a2a"
    if "Authorization" not in request.headers and "token" not in faults:
        return httpx.Response(401, json={"error": {"code": -32600}})
    try:
        body = json.loads(request.content)
    except ValueError:
        return httpx.Response(200, json={"error": {"code": faults.get("json", -32700)}})
    method, params = body["method"], body["params"]
    if method == "SendStreamingMessage":
        events = [{"result": {"task": {**TASK, "status": {"state": "TASK_STATE_WORKING"}}}}]
        events += [] if "stream" in faults else [{"result": {"statusUpdate": {"status": TASK["status"]}}}]
        texts = faults.get("events") or map(json.dumps, events)
        return httpx.Response(200, text="".join(f"data: {text}\n\n" for text in texts))
    if method in faults:
        return httpx.Response(200, json=faults[method])
    if method == "SendMessage":
        valid = isinstance(params["message"]["parts"], list)
        return httpx.Response(200, json={"result": {"task": TASK}} if valid else {"error": {"code": -32602}})
    if method == "GetTask":
        found = params["id"] == TASK["id"]
        return httpx.Response(200, json={"result": TASK} if found else {"error": {"code": -32001}})
    known = {"result": RESULTS[method]} if method in RESULTS else {"error": {"code": ERRORS[method]}}
    return httpx.Response(200, json=known)


async def failed_checks(**faults: Any) -> list[str]:
    transport = httpx.MockTransport(lambda request: reply_to(request, faults))
    async with httpx.AsyncClient(transport=transport) as http:
        state = ProbeState(ProbedServer(http, "https://agent.test", "secret"))
        return [check.name for check in CHECKS if await check.run(state)]


@pytest.mark.parametrize(
    ("base", "advertised", "endpoint"),
    [
        pytest.param(
            "http://127.0.0.1:7870", "http://poet.shop/a2a", "http://127.0.0.1:7870/a2a", id="a forwarded port"
        ),
        pytest.param(
            "https://gw.example/shop/poet",
            "https://gw.example/shop/poet/a2a",
            "https://gw.example/shop/poet/a2a",
            id="a gateway with a path for each agent",
        ),
        pytest.param(
            "http://127.0.0.1:8080/shop/poet",
            "https://gw.example/shop/poet/a2a",
            "http://127.0.0.1:8080/shop/poet/a2a",
            id="such a gateway behind a forwarded port",
        ),
        pytest.param(
            "http://127.0.0.1:8001/api/v1/namespaces/x/services/gw:80/proxy/shop/poet",
            "https://gw.example/shop/poet/a2a",
            "http://127.0.0.1:8001/api/v1/namespaces/x/services/gw:80/proxy/shop/poet/a2a",
            id="such a gateway behind kubectl proxy",
        ),
        pytest.param(
            "https://proxy.example/agents", "https://poet.shop/a2a", "https://proxy.example/agents/a2a", id="a proxy"
        ),
        pytest.param(
            "https://proxy.example/a", "https://poet.shop/a2a", "https://proxy.example/a/a2a", id="a similar path"
        ),
        pytest.param(
            "https://x.example/a2a", "https://x.example/a2a", "https://x.example/a2a", id="the endpoint itself"
        ),
        pytest.param("https://x.example", "", "https://x.example", id="an interface without a path"),
    ],
)
def test_endpoint_of_does_not_repeat_the_path_of_the_address(base, advertised, endpoint):
    assert endpoint_of(base, advertised) == endpoint


async def test_sound_server_passes_every_check():
    assert await failed_checks() == []


@pytest.mark.parametrize(
    ("faults", "wanted"),
    [
        ({"token": 1}, "refuses callers without a token"),
        ({"stream": 1}, "streams until the task ends"),
        ({"events": ["[" * 100_000, "7", "half"]}, "streams until the task ends"),
        ({"json": -32603}, "reports invalid JSON"),
        ({"ListTasks": {"result": {"tasks": []}}}, "lists tasks"),
        ({"CancelTask": {"result": TASK}}, "refuses to cancel an ended task"),
        ({"NoSuchMethod": {"error": {"code": -32603}}}, "reports an unknown method"),
        ({"CreateTaskPushNotificationConfig": {"result": {"id": "p"}}}, "refuses a link-local callback"),
        ({"card": {**CARD, "skills": None, "securitySchemes": {}}}, "refuses callers without a token"),
    ],
)
async def test_fault_fails_the_check_that_looks_for_it(faults, wanted):
    assert await failed_checks(**faults) == [wanted]


async def test_server_that_finds_every_task_fails():
    assert await failed_checks(GetTask={"result": TASK}) == ["reports an unknown task"]


@pytest.mark.process
def test_probe_of_a_running_agent_passes(fleet, tmp_path):
    token = tmp_path / "token"
    token.write_text(fleet.address["token"])
    words = ("probe", fleet.address["url"], "--token-file", str(token), "-o", "json")
    done = run_fleetwright(*words, environment=environment(fleet.home))
    assert done.returncode == 0, done.stdout + done.stderr
    assert {each["result"] for each in json.loads(done.stdout)} <= {"passed", "skipped"}


@pytest.mark.process
def test_probe_without_a_server_exits_with_2(fleet):
    done = run_fleetwright("probe", "http://127.0.0.1:9", environment=environment(fleet.home))
    assert (done.returncode, done.stdout) == (2, "")
    assert "no connection to http://127.0.0.1:9" in done.stderr
