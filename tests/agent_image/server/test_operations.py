"""The operations of A2A 1.0 through a real server, with the SDK's client and with raw requests."""

import asyncio
import gc
import itertools
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import SendMessageRequest, TaskState
from tests.support.waiting import await_until, within

from fleetwright_a2a.extensions import CALL_PATH
from fleetwright_agent.protocol.frames import Frame, Text, ToolEnd, ToolStart, TurnDone, TurnFailed, TurnRequest, Usage

Open = Callable[..., Any]


async def endless(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text("So far so good.")
    yield Usage(model="m", input_tokens=10, output_tokens=2)
    await asyncio.Event().wait()


async def test_blocking_send_returns_the_finished_task_with_one_answer(open_door: Open) -> None:
    door = await open_door()
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [a["artifactId"] for a in task["artifacts"]] == [f"{task['id']}-answer"]
    assert task["artifacts"][0]["parts"] == [{"text": "You said: hello"}]
    assert task["contextId"].startswith("a2a-")
    assert await door.get(task["id"]) == task


async def test_turn_request_has_owner_context_and_metadata(open_door: Open) -> None:
    door = await open_door()
    path = {"https://fleetwright.dev/a2a/call-path/v1": ["team/first"]}
    task = await door.say("hello", owner="agent:team/peer", contextId="talk", metadata=path | {"origin": "test"})
    request = door.turn.requests[0]
    assert (request.owner, request.context_id, request.task_id) == ("agent:team/peer", "talk", task["id"])
    assert (request.text, request.call_path) == ("hello", ("team/first",))
    assert request.metadata["origin"] == "test"


async def test_nonblocking_send_returns_the_submitted_task(open_door: Open) -> None:
    door = await open_door(endless)
    task = await door.say("go", now=True)
    assert task["status"]["state"] == "TASK_STATE_SUBMITTED"
    assert "artifacts" not in task


async def test_sdk_client_streams_task_progress_and_one_end(
    open_door: Open, request_of: Callable[..., SendMessageRequest]
) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Let me look. ")
        yield ToolStart(call_id="1", name="docs__search", arguments="{}")
        yield ToolEnd(call_id="1", name="docs__search", ok=True, result="...")
        yield Text("It is 42.")
        yield Usage(model="m", input_tokens=100, output_tokens=10)
        yield TurnDone("It is 42.")

    door = await open_door(script)
    async with door.client() as client:
        events = [event async for event in client.send_message(request_of("what is it?"))]
    kinds = [event.WhichOneof("payload") for event in events]
    assert kinds[0] == "task"
    assert events[0].task.status.state == TaskState.TASK_STATE_SUBMITTED
    states = [TaskState.Name(e.status_update.status.state) for e in events if e.HasField("status_update")]
    assert states[0] == "TASK_STATE_WORKING"
    assert states[-1] == "TASK_STATE_COMPLETED"
    assert set(states[:-1]) == {"TASK_STATE_WORKING"}
    sentences = [e.status_update.status.message.parts[0].text for e in events if e.status_update.status.message.parts]
    assert sentences == ["Calling docs__search.", "docs__search answered."]
    last = [e.artifact_update for e in events if e.HasField("artifact_update")][-1]
    assert last.last_chunk
    assert not last.append
    assert last.artifact.parts[0].text == "It is 42."
    assert "https://proto-labs.ai/a2a/ext/cost-v1" in last.artifact.metadata


async def test_failed_turn_reports_its_reason_and_cost(open_door: Open) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Usage(model="m", input_tokens=7, output_tokens=0)
        raise TurnFailed("model_unauthorized", "The model refused the key; check the Secret.")

    door = await open_door(script)
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"] == [{"text": "The model refused the key; check the Secret."}]
    assert task["status"]["message"]["metadata"] == {"reason": "model_unauthorized"}
    bill = task["artifacts"][0]["metadata"]["https://proto-labs.ai/a2a/ext/cost-v1"]
    assert bill["success"] is False
    assert bill["usage"]["input_tokens"] == 7


async def test_turn_exception_reveals_nothing_internal(open_door: Open, caplog: pytest.LogCaptureFixture) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Half an ans")
        raise RuntimeError("SELECT secret FROM /var/lib")

    door = await open_door(script)
    answer = json.dumps(await door.call("SendMessage", {"message": _message("hello")}))
    assert "TASK_STATE_FAILED" in answer
    assert "Half an ans" in answer
    assert "SELECT" not in answer
    assert "RuntimeError" not in answer
    assert "SELECT secret" in caplog.text


async def test_turn_deadline_fails_the_task_and_keeps_its_text(
    open_door: Open, mounted: Any, documents: Callable[..., dict[str, Any]]
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxTurnSeconds": 3}))
    door = await open_door(endless)
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["parts"] == [{"text": "The turn did not finish within 3 seconds."}]
    assert task["artifacts"][0]["parts"] == [{"text": "So far so good."}]


async def test_cancel_task_ends_once_with_cost_and_is_not_repeatable(open_door: Open) -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        begun.set()
        try:
            async for frame in endless(request):
                yield frame
        except asyncio.CancelledError:
            cancelled.set()
            raise

    door = await open_door(script)
    task = await door.say("go", now=True)
    await door.until(task["id"], "TASK_STATE_WORKING")
    # The task is in this state before its turn runs.
    async with within("the turn begins"):
        await begun.wait()
    ended = (await door.call("CancelTask", {"id": task["id"]}))["result"]
    assert ended["status"]["state"] == "TASK_STATE_CANCELED"
    assert cancelled.is_set()
    assert ended["artifacts"][0]["metadata"]["https://proto-labs.ai/a2a/ext/cost-v1"]["success"] is False
    assert (await door.call("CancelTask", {"id": task["id"]}))["error"]["code"] == -32002


async def test_cancel_task_racing_with_the_end_emits_one_final_event(open_door: Open) -> None:
    door = await open_door()

    async def race(number: int) -> list[str]:
        async with door.http() as http:
            body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": _message("go")}}
            states = []
            async with http.stream("POST", "/a2a", json=body) as stream:
                async for line in stream.aiter_lines():
                    if not line.startswith("data: "):
                        continue
                    result = json.loads(line[6:])["result"]
                    if "task" in result:
                        await asyncio.sleep(number * 0.0005)
                        await door.call("CancelTask", {"id": result["task"]["id"]})
                    if "statusUpdate" in result:
                        states.append(result["statusUpdate"]["status"]["state"])
            return states

    for states in await asyncio.gather(*(race(n) for n in range(12))):
        assert sum(s in ("TASK_STATE_COMPLETED", "TASK_STATE_CANCELED") for s in states) == 1
        assert states[-1] in ("TASK_STATE_COMPLETED", "TASK_STATE_CANCELED")


async def test_subscribe_sends_the_task_and_then_only_later_events(open_door: Open) -> None:
    more = asyncio.Event()

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("first ")
        await more.wait()
        yield Text("second")
        yield TurnDone("first second")

    door = await open_door(script)
    task = await door.say("go", now=True)
    async with within("the task shows an artifact"):
        while "artifacts" not in await door.get(task["id"]):  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)
    texts = []
    async with door.http() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task["id"]}}
        async with http.stream("POST", "/a2a", json=body) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    result = json.loads(line[6:])["result"]
                    if "task" in result:
                        assert result["task"]["artifacts"][0]["parts"] == [{"text": "first "}]
                        more.set()
                    if "artifactUpdate" in result:
                        texts.append(result["artifactUpdate"]["artifact"]["parts"][0]["text"])
    assert texts[-1] == "first second"
    assert texts[:-1] in ([], ["second"])


async def test_task_continues_after_its_reader_disconnects(open_door: Open) -> None:
    more = asyncio.Event()

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("one")
        await more.wait()
        yield TurnDone("done anyway")

    door = await open_door(script)
    async with door.http() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": _message("go")}}
        async with http.stream("POST", "/a2a", json=body) as stream:
            async for line in stream.aiter_lines():
                if line.startswith("data: "):
                    task_id = json.loads(line[6:])["result"]["task"]["id"]
                    break
    more.set()
    task = await door.until(task_id, "TASK_STATE_COMPLETED")
    assert task["artifacts"][0]["parts"] == [{"text": "done anyway"}]


async def test_send_message_is_idempotent_by_message_id(open_door: Open) -> None:
    door = await open_door()
    message = _message("hello")
    first, second = await asyncio.gather(
        door.call("SendMessage", {"message": message}), door.call("SendMessage", {"message": message})
    )
    assert first["result"] == second["result"]
    assert len(door.turn.requests) == 1
    other = await door.call("SendMessage", {"message": message | {"parts": [{"text": "something else"}]}})
    assert other["result"]["task"]["id"] != first["result"]["task"]["id"]
    assert len(door.turn.requests) == 2


async def test_r13_context_runs_its_turns_serially_in_order(open_door: Open) -> None:
    seen: list[str] = []
    other_started = asyncio.Event()

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        seen.append(f"start {request.text}")
        if request.text == "a":
            await other_started.wait()
        if request.text == "c":
            other_started.set()
        await asyncio.sleep(0.01)
        seen.append(f"end {request.text}")
        yield TurnDone(request.text)

    door = await open_door(script)
    await door.say("a", now=True, contextId="one")
    await door.say("b", now=True, contextId="one")
    await door.say("c", contextId="two")
    await door.say("d", contextId="one")
    assert [s for s in seen if s[-1] != "c"] == ["start a", "end a", "start b", "end b", "start d", "end d"]


async def test_cancel_task_ends_a_queued_turn(open_door: Open) -> None:
    door = await open_door(endless)
    first = await door.say("a", now=True, contextId="one")
    await door.until(first["id"], "TASK_STATE_WORKING")
    queued = await door.say("b", now=True, contextId="one")
    ended = (await door.call("CancelTask", {"id": queued["id"]}))["result"]
    assert ended["status"]["state"] == "TASK_STATE_CANCELED"
    assert [request.text for request in door.turn.requests] == ["a"]


async def test_tasks_are_invisible_to_other_callers(open_door: Open) -> None:
    door = await open_door(endless)
    mine = await door.say("secret", now=True, contextId="shared")
    for method in ("GetTask", "CancelTask", "SubscribeToTask"):
        answer = await door.call(method, {"id": mine["id"]}, owner="client:other")
        assert answer["error"]["code"] == -32001, method
    follow = await door.call("SendMessage", {"message": _message("x", taskId=mine["id"])}, owner="client:other")
    assert follow["error"]["code"] == -32001
    listed = (await door.call("ListTasks", {}, owner="client:other"))["result"]
    assert listed["tasks"] == []
    await door.say("mine", now=True, contextId="shared", owner="client:other")
    await await_until(lambda: len(door.turn.requests) >= 2, "two turns begin")
    assert {request.owner for request in door.turn.requests} == {"client:default", "client:other"}


async def test_list_tasks_pages_newest_first_and_filters(open_door: Open) -> None:
    door = await open_door()
    made = [(await door.say(str(n), contextId="even" if n % 2 == 0 else "odd"))["id"] for n in range(5)]
    first = (await door.call("ListTasks", {"pageSize": 2}))["result"]
    assert [t["id"] for t in first["tasks"]] == [made[4], made[3]]
    assert first["totalSize"] == 5
    assert all("artifacts" not in t for t in first["tasks"])
    second = (await door.call("ListTasks", {"pageSize": 2, "pageToken": first["nextPageToken"]}))["result"]
    third = (await door.call("ListTasks", {"pageSize": 2, "pageToken": second["nextPageToken"]}))["result"]
    assert [t["id"] for t in second["tasks"] + third["tasks"]] == [made[2], made[1], made[0]]
    assert third["nextPageToken"] == ""
    odd = (await door.call("ListTasks", {"contextId": "odd", "includeArtifacts": True}))["result"]
    assert [t["id"] for t in odd["tasks"]] == [made[3], made[1]]
    assert odd["tasks"][0]["artifacts"][0]["parts"][0]["text"] == "You said: 3"
    assert (await door.call("ListTasks", {"status": "TASK_STATE_FAILED"}))["result"]["tasks"] == []


async def test_list_tasks_shows_the_current_state_of_a_running_task(open_door: Open) -> None:
    door = await open_door(endless)
    task = await door.say("go", now=True)
    await door.until(task["id"], "TASK_STATE_WORKING")
    listed = (await door.call("ListTasks", {"status": "TASK_STATE_WORKING", "includeArtifacts": True}))["result"]
    assert [t["id"] for t in listed["tasks"]] == [task["id"]]


async def test_finished_task_refuses_messages_and_leaks_nothing(
    open_door: Open, caplog: pytest.LogCaptureFixture
) -> None:
    """The SDK's own handler leaks three asyncio tasks for each request, and logs an error for them."""
    door = await open_door()
    task = await door.say("hello")
    for _ in range(3):
        await door.call("SendMessage", {"message": _message("more", taskId=task["id"])})
    gc.collect()
    before = _left_behind()
    for _ in range(10):
        await door.call("SendMessage", {"message": _message("more", taskId=task["id"])})
    gc.collect()
    assert _left_behind() <= before
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []
    more = await door.call("SendMessage", {"message": _message("more", taskId=task["id"])})
    assert more["error"]["code"] == -32004
    assert "without taskId" in more["error"]["message"]
    reader = await door.call("SubscribeToTask", {"id": task["id"]})
    assert reader["error"]["code"] == -32004
    assert "GetTask" in reader["error"]["message"]


@pytest.mark.parametrize(
    ("path", "sentence"),
    [
        pytest.param(["team/other", "team/echo"], "would be a loop", id="a request that came through here is refused"),
        pytest.param([f"team/a{n}" for n in range(9)], "at most 8", id="a request that came too far is refused"),
    ],
)
async def test_call_path_loops_and_excess_hops_are_rejected(open_door: Open, path: list[str], sentence: str) -> None:
    door = await open_door()
    task = await door.say("hello", metadata={"https://fleetwright.dev/a2a/call-path/v1": path})
    assert task["status"]["state"] == "TASK_STATE_REJECTED"
    assert sentence in task["status"]["message"]["parts"][0]["text"]
    assert door.turn.requests == []


LOOP = ["team/other", "team/echo"]
ON_A_PART = "application/vnd.protolabs.call-path-v1+json"


@pytest.mark.parametrize(
    ("version", "method", "parts", "metadata"),
    [
        pytest.param("1.0", "SendMessage", [], {CALL_PATH: LOOP}, id="in the metadata"),
        pytest.param(
            "1.0",
            "SendMessage",
            [{"data": LOOP, "metadata": {"mimeType": ON_A_PART}, "mediaType": "application/json"}],
            {},
            id="as a data part of 1.0",
        ),
        pytest.param(
            "1.0",
            "SendMessage",
            [{"content": {"$case": "data", "value": LOOP}, "metadata": {"mimeType": CALL_PATH}}],
            {},
            id="as the JavaScript SDK has a part in memory, by the URI",
        ),
        pytest.param(
            "0.3",
            "message/send",
            [{"kind": "data", "data": {"value": LOOP}, "metadata": {"mimeType": ON_A_PART}}],
            {},
            id="as a data part of 0.3",
        ),
    ],
)
async def test_extension_data_of_a_caller_is_read_on_every_wire(
    open_door: Open, version: str, method: str, parts: list[Any], metadata: dict[str, Any]
) -> None:
    door = await open_door()
    text = {"text": "hello"} if version == "1.0" else {"kind": "text", "text": "hello"}
    role = "ROLE_USER" if version == "1.0" else "user"
    said = {"messageId": f"wire {method} {len(parts)}", "role": role, "parts": [text, *parts], "metadata": metadata}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}
    async with door.http() as http:
        answer = (await http.post("/a2a", json=body, headers={"A2A-Version": version})).json()["result"]
    task = answer.get("task", answer)
    assert task["status"]["state"] in ("TASK_STATE_REJECTED", "rejected")
    assert "would be a loop" in task["status"]["message"]["parts"][0]["text"]
    assert door.turn.requests == []


def _left_behind() -> int:
    """Return the number of asyncio tasks that belong to no connection."""
    return sum("uvicorn" not in repr(each.get_coro()) for each in asyncio.all_tasks())


_numbers = itertools.count()


def _message(text: str, **changes: Any) -> dict[str, Any]:
    return {"messageId": f"raw-{next(_numbers)}", "role": "ROLE_USER", "parts": [{"text": text}]} | changes
