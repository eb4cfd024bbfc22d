"""Whatever is sent, under every method and path of every dialect, is answered in it and tells nothing internal."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fleetwright_agent.server.dialects.rest import _PATHS, _PREFIXES
from fleetwright_agent.server.dialects.v01 import V01
from fleetwright_agent.server.dialects.v03 import V03
from fleetwright_agent.server.dialects.v10 import V10
from fleetwright_agent.server.memory_log import MemoryTaskLog

INTERNAL = (
    "Traceback",
    "pydantic",
    "NoneType",
    "object has no",
    "site-packages",
    "protobuf",
    "a2a_pb2",
    "Exception",
    "Value(",
)
MESSAGES = {
    "1.0": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x", "mediaType": "text/plain"}], "metadata": {}},
    "0.3": {
        "kind": "message",
        "messageId": "m",
        "role": "user",
        "parts": [
            {"kind": "text", "text": "x"},
            {"kind": "file", "file": {"bytes": "eA=="}},
            {"kind": "data", "data": {}},
        ],
        "metadata": {"data_part_compat": True},
    },
    "0.1": {"role": "user", "parts": [{"type": "text", "text": "x"}, {"type": "file", "file": {"bytes": "eA=="}}]},
    "0.3 REST": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "x"}, {"data": {"data": {}}}]},
}
PUSH = {"url": "https://hooks.example.com", "token": "t", "authentication": {"schemes": ["Bearer"], "credentials": "c"}}


def usual(version: str) -> dict[str, Any]:
    """Params that hold something for every method, so that what is changed in them is looked at."""
    configuration = {
        "historyLength": 1,
        "blocking": True,
        "acceptedOutputModes": ["text/plain"],
        "returnImmediately": False,
    }
    return {
        "message": MESSAGES[version],
        "id": "t",
        "sessionId": "s",
        "taskId": "t",
        "historyLength": 1,
        "configuration": configuration,
        "pushNotificationConfig": PUSH,
        "pushNotificationConfigId": "c",
        "pageSize": 1,
        "metadata": {"a": 1},
    }


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | st.sampled_from(["ROLE_USER", "agent", "data", "", "2026-03-01T12:00:00Z", "TASK_STATE_WORKING"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=10), inner, max_size=3),
    max_leaves=8,
)


@st.composite
def changed(draw: Any, version: str) -> Any:
    """Usual params in which one place, wherever, is something else, is gone, or is there besides."""
    params = json.loads(json.dumps(usual(version)))
    for name in draw(st.sets(st.sampled_from(sorted(params)), max_size=4)):
        del params[name]
    place = params
    while isinstance(place, dict | list) and place:
        key = draw(st.sampled_from(sorted(place) if isinstance(place, dict) else list(range(len(place)))))
        if not isinstance(place[key], dict | list) or draw(st.booleans()):
            place[key] = draw(JSON)
            break
        place = place[key]
    return params


def check_rpc(text: str, request_id: int) -> None:
    answer = json.loads(text)
    assert set(answer) in ({"jsonrpc", "id", "result"}, {"jsonrpc", "id", "error"}), text
    assert (answer["jsonrpc"], answer["id"]) == ("2.0", request_id)
    if "error" in answer:
        assert isinstance(answer["error"]["code"], int)
        assert answer["error"]["code"] != -32603, text
        assert isinstance(answer["error"]["message"], str)
        for word in INTERNAL:
            assert word not in text


@pytest.fixture
async def caller(open_door: Callable[..., Any]) -> AsyncIterator[httpx.AsyncClient]:
    door = await open_door(log=MemoryTaskLog())
    async with door.http() as http:
        del http.headers["A2A-Version"]
        yield http


METHODS = [
    pytest.param(dialect.version, method, id=f"{method} of {dialect.version}")
    for dialect in (V10, V03, V01)
    for method in dialect.methods
]
MANY = settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@pytest.mark.parametrize(("version", "method"), METHODS)
@MANY
@given(data=st.data())
async def test_methods(caller: httpx.AsyncClient, version: str, method: str, data: st.DataObject) -> None:
    params = data.draw(changed(version) | JSON)
    body = {"jsonrpc": "2.0", "id": 5, "method": method, "params": params}
    response = await caller.post("/a2a", json=body, headers={"A2A-Version": version})
    assert response.status_code == 200
    if response.headers["content-type"].startswith("text/event-stream"):
        told = [line.removeprefix("data: ") for line in response.text.splitlines() if line.startswith("data: ")]
        assert told
        for text in told:
            check_rpc(text, 5)
    else:
        check_rpc(response.text, 5)


WORDS = st.sampled_from(["t", "x y", "a:cancel", "%00", "ü", "a" * 200])
PATHS = [
    pytest.param(version, verb, prefix + path, id=f"{verb} {prefix}{path} of {version}")
    for version in ("1.0", "0.3")
    for verb, path, _, _ in _PATHS
    for prefix in _PREFIXES[:2]
]


@pytest.mark.parametrize(("version", "verb", "path"), PATHS)
@settings(MANY, max_examples=6)
@given(data=st.data())
async def test_paths(caller: httpx.AsyncClient, version: str, verb: str, path: str, data: st.DataObject) -> None:
    spelling = version if version == "1.0" else "0.3 REST"
    where = path.replace("{task}", data.draw(WORDS)).replace("{config}", data.draw(WORDS))
    names = st.sampled_from(["historyLength", "pageSize", "pageToken", "includeArtifacts", "status", "x"])
    query = data.draw(st.dictionaries(names, st.sampled_from(["1", "-1", "true", "maybe", "9" * 30, ""]), max_size=3))
    body = data.draw(changed(spelling) | JSON) if verb == "POST" else None
    response = await caller.request(verb, where, params=query, json=body, headers={"A2A-Version": version})
    assert response.status_code < 500, response.text
    for word in INTERNAL:
        assert word not in response.text
    if response.status_code >= 400 and response.headers["content-type"] == "application/json":
        error = response.json()["error"]
        assert error["code"] == response.status_code
        assert {"status", "message"} <= set(error)
