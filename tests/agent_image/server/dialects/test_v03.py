"""A2A 0.3 through the server: differences from the SDK's own adapter, and method aliases."""

import json
from collections.abc import Callable
from typing import Any

import pytest

Open = Callable[..., Any]
SCRIPT = {"ask": ["ask: Sure?"], "yes": ["Done."], "hello": ["Hello."]}


def send(text: str = "hello", **more: Any) -> dict[str, Any]:
    message = {"kind": "message", "messageId": text, "role": "user", "parts": [{"kind": "text", "text": text}]}
    return {"message": message | more}


@pytest.mark.parametrize(
    "method",
    [
        pytest.param("message/stream", id="its own name"),
        pytest.param("message/sendSubscribe", id="a name that a hub uses"),
        pytest.param("message/sendStream", id="a name that an older server took"),
    ],
)
async def test_v03_stream_has_task_progress_and_one_final_event(open_door: Open, raw: Any, method: str) -> None:
    door = await open_door()
    async with raw(door) as caller:
        told = [json.loads(text)["result"] for text in await caller.stream(method, send())]
    assert told[0]["kind"] == "task"
    assert [each["status"]["state"] for each in told if "status" in each] == ["submitted", "working", "completed"]
    assert [each["final"] for each in told if each["kind"] == "status-update"] == [False, True]
    pieces = [each for each in told if each["kind"] == "artifact-update"]
    assert pieces[-1]["artifact"]["parts"] == [{"kind": "text", "text": "You said: hello"}]
    assert (pieces[-1]["append"], pieces[-1]["lastChunk"]) == (False, True)


async def test_v03_stream_ends_at_an_interrupt_and_the_task_continues(open_door: Open, written: Any, raw: Any) -> None:
    door = await open_door(executor=written(SCRIPT))
    async with raw(door) as caller:
        told = [json.loads(text)["result"] for text in await caller.stream("message/stream", send("ask"))]
        end = told[-1]
        assert (end["status"]["state"], end["final"]) == ("input-required", True)
        assert end["status"]["message"]["parts"] == [{"kind": "text", "text": "Sure?"}]
        task = (await caller.call("message/send", send("yes", taskId=end["taskId"])))["result"]
    assert (task["id"], task["status"]["state"]) == (end["taskId"], "completed")


async def test_v03_nonblocking_send_returns_the_submitted_task(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        task = (await caller.call("message/send", send() | {"configuration": {"blocking": False}}))["result"]
        assert task["status"]["state"] == "submitted"
        await door.until(task["id"], "TASK_STATE_COMPLETED")
        assert len((await caller.call("tasks/get", {"id": task["id"]}))["result"]["history"]) == 1


WRONG = [
    pytest.param("message/send", {}, -32602, "check message", id="no message"),
    pytest.param("message/send", send(role="agent"), -32602, "message.role must be user", id="a message as the agent"),
    pytest.param("message/send", send(parts=[{"text": 7}]), -32602, "message.parts.0", id="a part that is none"),
    pytest.param(
        "message/send",
        send(parts=[{"kind": "file", "file": {"bytes": "a"}}]),
        -32602,
        "check the shape of params",
        id="bytes that are not base64",
    ),
    pytest.param(
        "message/send",
        send(parts=[{"kind": "data", "data": {}, "metadata": {"data_part_compat": True}}]),
        -32602,
        "check the shape of params",
        id="a mark of the SDK on a part that has not what it marks",
    ),
    pytest.param("message/send", send(messageId=""), -32602, "message.message_id", id="a message without an id"),
    pytest.param("message/send", send() | {"contextId": "c"}, -32602, "params.message", id="a context beside it"),
    pytest.param("tasks/get", {"id": "x", "historyLength": "many"}, -32602, "historyLength", id="a length in words"),
    pytest.param("tasks/get", {"id": "x"}, -32001, "Task not found", id="a task nobody knows"),
    pytest.param("tasks/cancel", {"id": "DONE"}, -32002, "completed already", id="cancelling what has ended"),
    pytest.param("agent/getAuthenticatedExtendedCard", {}, -32007, "", id="the extended card"),
]


@pytest.mark.parametrize(("method", "params", "code", "says"), WRONG)
async def test_v03_errors_have_code_and_message(
    open_door: Open, raw: Any, method: str, params: dict[str, Any], code: int, says: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        done = (await caller.call("message/send", send("first")))["result"]["id"]
        params = json.loads(json.dumps(params).replace("DONE", done))
        answer = await caller.call(method, params)
    assert (answer["error"]["code"], "data" in answer["error"]) == (code, False), answer
    assert says in answer["error"]["message"]


async def test_v03_failed_stream_is_a_stream_of_one_error(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        done = (await caller.call("message/send", send()))["result"]["id"]
        for method, params, code in (
            ("message/stream", {}, -32602),
            ("tasks/resubscribe", {"id": "nobody"}, -32001),
            ("tasks/resubscribe", {"id": done}, -32004),
        ):
            (told,) = [json.loads(text) for text in await caller.stream(method, params, request_id="r")]
            assert (told["id"], told["error"]["code"]) == ("r", code)


async def test_v03_extensions_are_echoed_in_the_requested_header(open_door: Open, raw: Any) -> None:
    cost = "https://proto-labs.ai/a2a/ext/cost-v1"
    door = await open_door()
    async with raw(door) as caller:
        for method, name in (("message/send", "x-a2a-extensions"), ("message/stream", "a2a-extensions")):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": send(method)}
            response = await caller.http.post("/a2a", json=body, headers={name: f"{cost}, urn:x"})
            assert [value for key, value in response.headers.items() if "extensions" in key] == [cost]
            assert response.headers[name] == cost
