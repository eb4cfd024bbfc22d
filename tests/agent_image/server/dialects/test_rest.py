"""HTTP+JSON through the server, in both versions that support it, under every supported path."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
import pytest
from tests.support.waiting import within

from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest

Open = Callable[..., Any]
V10 = {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}}
V03 = {"message": {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}}
SENT = [
    pytest.param("/a2a/message:send", "1.0", V10, "TASK_STATE_COMPLETED", id="1.0 at the address of the card"),
    pytest.param("/message:send", "1.0", V10, "TASK_STATE_COMPLETED", id="1.0 at the root"),
    pytest.param("/a2a/v1/message:send", None, V03, "TASK_STATE_COMPLETED", id="0.3 at the address of the card"),
    pytest.param("/a2a/v1/message:send", "0.3", V03, "TASK_STATE_COMPLETED", id="0.3 with its version"),
    pytest.param("/a2a/message:send", None, V03, "TASK_STATE_COMPLETED", id="0.3 without a version in the path"),
    pytest.param("/v1/message:send", None, V03, "TASK_STATE_COMPLETED", id="0.3 at the root"),
]


def versioned(version: str | None) -> dict[str, str]:
    return {"A2A-Version": version} if version else {}


@pytest.mark.parametrize(("path", "version", "body", "state"), SENT)
async def test_rest_send_message_works_under_every_path(
    open_door: Open, raw: Any, path: str, version: Any, body: Any, state: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        response = await caller.http.post(path, json=body, headers=versioned(version))
        assert response.status_code == 200, response.text
        task = response.json()["task"]
        assert task["status"]["state"] == state
        where = path.replace("message:send", f"tasks/{task['id']}")
        again = (await caller.http.get(where, headers=versioned(version))).json()
        short = (await caller.http.get(f"{where}?historyLength=1", headers=versioned(version))).json()
    assert again == task == short
    media_type = "application/a2a+json" if version == "1.0" else "application/json"
    assert response.headers["content-type"] == media_type


async def streamed(http: httpx.AsyncClient, verb: str, path: str, **options: Any) -> list[dict[str, Any]]:
    async with http.stream(verb, path, **options) as response:
        assert response.headers["content-type"].startswith("text/event-stream"), await response.aread()
        return [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]


async def test_rest_1_0_streams_events(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        told = await streamed(http, "POST", "/a2a/message:stream", json=V10)
    assert [next(iter(each)) for each in told] == [
        "task",
        "statusUpdate",
        "artifactUpdate",
        "artifactUpdate",
        "statusUpdate",
    ]
    assert told[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_rest_0_3_streams_events(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        told = await streamed(caller.http, "POST", "/a2a/v1/message:stream", json=V03)
    assert told[0]["task"]["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert (told[-1]["statusUpdate"]["status"]["state"], told[-1]["statusUpdate"]["final"]) == (
        "TASK_STATE_COMPLETED",
        True,
    )


async def test_rest_list_and_cancel_need_no_body(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        del http.headers["Content-Type"]
        task = (await http.post("/a2a/message:send", json=V10)).json()["task"]
        listed = (await http.get("/a2a/tasks", params={"includeArtifacts": "true", "pageSize": 1})).json()
        assert [each["id"] for each in listed["tasks"]] == [task["id"]]
        assert listed["tasks"][0]["artifacts"][0]["parts"][0]["text"] == "You said: hello"
        cancelled = await http.post(f"/a2a/tasks/{task['id']}:cancel")
    assert (cancelled.status_code, cancelled.json()["error"]["details"][0]["reason"]) == (400, "TASK_NOT_CANCELABLE")


async def stay(_: TurnRequest) -> AsyncIterator[Frame]:
    """A turn that ends only when its task is cancelled."""
    await asyncio.Event().wait()
    yield TurnDone("It was never reached.")


NO_BODY = (b"", b"null", b" null\r\n", b"{}", b" \n")
"""The bodies of calls without params. a2a-go sends `null`."""


@pytest.mark.parametrize(("prefix", "version"), [("/a2a", "1.0"), ("", "1.0"), ("/v1", "0.3"), ("/a2a/v1", None)])
async def test_rest_cancel_and_subscribe_accept_an_empty_body(
    open_door: Open, raw: Any, prefix: str, version: Any
) -> None:
    door = await open_door(stay)
    statuses = {}
    async with raw(door) as caller:
        for body in NO_BODY:
            task = await door.say("hang", now=True)
            for operation in ("subscribe", "cancel"):
                request = caller.http.stream(
                    "POST", f"{prefix}/tasks/{task['id']}:{operation}", content=body, headers=versioned(version)
                )
                async with within(f"{operation} is answered"), request as response:
                    statuses[body, operation] = response.status_code
    assert set(statuses.values()) == {200}, statuses


@pytest.mark.parametrize("path", ["/a2a/message:send", "/a2a/message:stream", "/a2a/tasks/x/pushNotificationConfigs"])
@pytest.mark.parametrize("body", [b"null", b"[]", b'"x"', b"0", b"false"])
async def test_rest_operations_with_params_refuse_a_body_without_them(open_door: Open, path: str, body: bytes) -> None:
    door = await open_door()
    async with door.http() as http:
        response = await http.post(path, content=body)
    assert (response.status_code, response.json()["error"]["message"]) == (400, "The body must be a JSON object")


CALLS = [("GET", "/a2a/tasks", 200), ("DELETE", "/a2a/tasks/x/pushNotificationConfigs/y", 400)]


async def test_rest_ignores_an_unexpected_body(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        for verb, path, status in CALLS:
            response = await http.request(verb, path, content=b"no JSON")
            assert response.status_code == status
            assert "not JSON" not in response.text


REFUSED = [
    pytest.param("GET", "/a2a/tasks/x", "1.0", None, 404, "NOT_FOUND", None, id="a task nobody knows"),
    pytest.param("GET", "/a2a/v1/tasks/x", None, None, 404, "NOT_FOUND", -32001, id="the same in 0.3"),
    pytest.param("POST", "/a2a/message:send", "1.0", b"{", 400, "INVALID_ARGUMENT", None, id="no JSON"),
    pytest.param(
        "POST",
        "/a2a/message:send",
        "1.0",
        b'{"message": {}, "message": {}}',
        400,
        "INVALID_ARGUMENT",
        None,
        id="a name twice",
    ),
    pytest.param("POST", "/a2a/message:send", "1.0", b"[]", 400, "INVALID_ARGUMENT", None, id="no object"),
    pytest.param(
        "POST",
        "/a2a/message:send",
        "1.0",
        b'{"a":' * 80 + b"1" + b"}" * 80,
        400,
        "INVALID_ARGUMENT",
        None,
        id="too deep",
    ),
    pytest.param(
        "POST", "/a2a/message:send", "1.0", b'{"contextId": "c"}', 400, "INVALID_ARGUMENT", None, id="a context astray"
    ),
    pytest.param("POST", "/a2a/message:send", "0.1", b"{}", 400, "FAILED_PRECONDITION", None, id="0.1, which has none"),
    pytest.param("GET", "/a2a/v1/tasks/x", "1.0", None, 400, "FAILED_PRECONDITION", None, id="1.0 at a path of 0.3"),
    pytest.param("GET", "/a2a/tasks", None, None, 400, "FAILED_PRECONDITION", None, id="a list in 0.3, which has none"),
    pytest.param("GET", "/a2a/tasks?pageSize=x", "1.0", None, 400, "INVALID_ARGUMENT", None, id="a size in words"),
    pytest.param("GET", "/a2a/tasks?includeArtifacts=1", "1.0", None, 400, "INVALID_ARGUMENT", None, id="half a truth"),
    pytest.param("GET", "/a2a/v1/tasks/x?historyLength=y", None, None, 400, "INVALID_ARGUMENT", -32602, id="so in 0.3"),
    pytest.param(
        "POST", "/a2a/message:send", "1.0", b"a" * 2**21, 413, "INVALID_ARGUMENT", None, id="a body too large"
    ),
    pytest.param(
        "GET", "/a2a/extendedAgentCard", "1.0", None, 400, "FAILED_PRECONDITION", None, id="the extended card"
    ),
]


@pytest.mark.parametrize(("verb", "path", "version", "body", "status", "word", "code"), REFUSED)
async def test_rest_errors_have_status_and_code(
    open_door: Open, raw: Any, verb: str, path: str, version: Any, body: Any, status: int, word: str, code: Any
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        response = await caller.http.request(verb, path, content=body, headers=versioned(version))
    answer = response.json()
    assert (response.status_code, answer["error"]["status"], answer["error"]["code"]) == (status, word, status), answer
    assert answer.get("code") == code
    assert "message" in answer["error"]


async def test_unauthenticated_error_has_the_form_of_the_binding(open_door: Open) -> None:
    door = await open_door()
    async with door.http(None) as http:
        rest = await http.get("/a2a/tasks")
        rpc = await http.post("/a2a", json={})
    assert rest.json()["error"] == {"code": 401, "status": "UNAUTHENTICATED", "message": "A bearer token is required."}
    assert (rpc.status_code, rpc.json()["error"]["code"]) == (401, -32600)


async def test_rest_is_unavailable_while_the_agent_drains(open_door: Open) -> None:
    door = await open_door()
    await door.app.drain()
    async with door.http() as http:
        for path in ("/a2a/message:send", "/a2a/message:stream"):
            response = await http.post(path, json=V10)
            assert (response.status_code, response.headers["retry-after"]) == (503, "1")
            assert response.headers["fleetwright-not-accepted"] == "true"
            assert response.json()["error"]["status"] == "UNAVAILABLE"


async def test_rest_405_lists_all_verbs_of_a_path(open_door: Open) -> None:
    door = await open_door()
    async with door.http() as http:
        response = await http.request("PUT", "/a2a/tasks/t/pushNotificationConfigs/c")
    assert response.status_code == 405
    assert set(response.headers["allow"].split(", ")) == {"GET", "HEAD", "DELETE"}
