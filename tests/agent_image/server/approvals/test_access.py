"""Access to the routes of the operator: other callers are refused, and the operator reaches no other route."""

from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]
CALL = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": {}}
TOKENS = {
    "client": "token-of-default",
    "peer": "token-of-peer",
    "itself": "token-of-echo",
    "nobody": "unknown",
    "gateway": "eyJhbGciOiJub25lIn0.eyJzdWIiOiJvcGVyYXRvciJ9.x",
}


@pytest.mark.parametrize(
    ("who", "status"),
    [
        pytest.param("client", 403, id="a client token"),
        pytest.param("peer", 403, id="the token of a peer"),
        pytest.param("itself", 403, id="the agent's own token"),
        pytest.param("nobody", 401, id="an unknown token"),
        pytest.param("gateway", 401, id="a token in the form of the gateway's"),
    ],
)
@pytest.mark.parametrize("path", ["/approvals", "/approvals/"])
async def test_approvals_are_refused_to_other_callers(
    open_door: Open, mounted: Any, callers: Any, operator_of: Any, asking: Any, who: str, status: int, path: str
) -> None:
    known = {"client:default": TOKENS["client"], "agent:team/peer": TOKENS["peer"], "agent:team/echo": TOKENS["itself"]}
    mounted.write(mounted.layout.callers_file, callers(known))
    door = await open_door(asking)
    task = await door.say("charge")
    (approval,) = await operator_of(door.url).open()
    other = operator_of(door.url, TOKENS[who])
    async with other.http() as http:
        assert (await http.get(path)).status_code == status
    assert (await other.decide(approval)).status_code == status
    assert (await door.get(task["id"]))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        pytest.param("POST", "/a2a", id="JSON-RPC"),
        pytest.param("POST", "/message:send", id="HTTP+JSON"),
        pytest.param("GET", "/tasks", id="the list of tasks"),
        pytest.param("GET", "/admin/memory?owner=client:default", id="the export of memory"),
        pytest.param("DELETE", "/admin/memory?owner=client:default", id="the erasure of memory"),
        pytest.param("GET", "/approvalsx", id="a path that begins alike"),
    ],
)
async def test_operator_reaches_only_its_own_routes(open_door: Open, operator_of: Any, method: str, path: str) -> None:
    door = await open_door()
    async with operator_of(door.url).http() as http:
        refused = await http.request(method, path, json=CALL if method == "POST" else None)
    assert refused.status_code == 403


async def test_operator_token_is_not_an_api_key(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(acceptApiKey=True))
    door = await open_door()
    operator = operator_of(door.url)
    async with door.http(None) as http:
        refused = await http.get("/approvals", headers={"X-API-Key": operator.token})
    assert refused.status_code == 401


async def test_operator_tokens_overlap_and_are_withdrawn(open_door: Open, mounted: Any, operator_of: Any) -> None:
    door = await open_door()
    operators = [operator_of(door.url), operator_of(door.url, "next-token-of-operator")]
    assert [(await operator.read()).status_code for operator in operators] == [200, 200]
    mounted.layout.operator_file.unlink()
    assert [(await operator.read()).status_code for operator in operators] == [401, 401]


@pytest.mark.parametrize(
    "document",
    [
        pytest.param({"version": 2, "operators": [{"sha256": "0" * 64}]}, id="another version"),
        pytest.param({"version": 1, "operators": []}, id="no token"),
        pytest.param({"version": 1, "operators": [{"sha256": "0"}]}, id="not a digest"),
        pytest.param("operator", id="not an object"),
    ],
)
async def test_invalid_operator_file_accepts_no_token(
    open_door: Open, mounted: Any, operator_of: Any, document: Any
) -> None:
    mounted.write(mounted.layout.operator_file, document)
    door = await open_door()
    assert (await operator_of(door.url).read()).status_code == 401
    assert (await door.say("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_operator_file_is_not_a_list_of_callers(open_door: Open, mounted: Any, callers: Any) -> None:
    """The list of callers has no operators, because earlier runtimes would refuse the whole list."""
    mounted.write(mounted.layout.callers_file, callers({"operator:operator": "token-of-default"}))
    door = await open_door()
    async with door.http() as http:
        assert (await http.post("/a2a", json=CALL)).status_code == 401


async def test_operator_is_outside_the_rate_limit(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxRequestsPerMinute": 1}))
    door = await open_door()
    assert [(await operator_of(door.url).read()).status_code for _ in range(3)] == [200] * 3
