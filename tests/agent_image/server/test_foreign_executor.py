"""Executors written for the a2a-sdk, in our server: callers see their events, and our request checks apply."""

import asyncio
import json
import re
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from a2a.helpers import new_task_from_user_message, new_text_artifact, new_text_message
from a2a.server.agent_execution import RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    Message,
    Part,
    Role,
    SendMessageRequest,
    StreamResponse,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from tests.support.agent.executors import ScriptedExecutor, reply_with_greeting
from tests.support.waiting import within

from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.build.card import agent_card

Open = Callable[..., Any]


def updater(context: RequestContext, queue: EventQueue) -> TaskUpdater:
    assert context.task_id is not None
    assert context.context_id is not None
    return TaskUpdater(queue, context.task_id, context.context_id)


async def works(context: RequestContext, queue: EventQueue) -> None:
    """Enqueue the four events of the SDK's own samples."""
    assert context.message is not None
    if context.current_task is None:
        await queue.enqueue_event(new_task_from_user_message(context.message))
    on = updater(context, queue)
    await on.start_work()
    await on.add_artifact([Part(text=f"You said: {context.get_user_input()}")], name="answer")
    await on.complete()


async def asks(context: RequestContext, queue: EventQueue) -> None:
    on = updater(context, queue)
    if context.current_task is None:
        await on.requires_input(on.new_agent_message([Part(text="For how many?")]))
    else:
        told = len(context.current_task.history)
        await on.add_artifact([Part(text=f"A table for {context.get_user_input()}, after {told} messages.")])
        await on.complete()


async def test_sdk_executor_task_is_returned_stored_and_streamed(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(works))
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert [part["text"] for artifact in task["artifacts"] for part in artifact["parts"]] == ["You said: hello"]
    assert await door.get(task["id"]) == task
    async with door.client() as client:
        kinds = [event.WhichOneof("payload") async for event in client.send_message(_request("hello"))]
    assert kinds == ["task", "status_update", "artifact_update", "status_update"]


async def test_sdk_executor_message_reply_is_idempotent(open_door: Open) -> None:
    executor = ScriptedExecutor(reply_with_greeting)
    door = await open_door(executor=executor)
    first = await door.call("SendMessage", {"message": _said("Ida")})
    again = await door.call("SendMessage", {"message": _said("Ida")})
    assert first["result"] == again["result"]
    assert executor.runs == 1
    reply = first["result"]["message"]
    assert reply["parts"] == [{"text": "Hello, Ida."}]
    assert "taskId" not in reply
    assert "metadata" not in reply
    async with door.client() as client:
        events = [event async for event in client.send_message(_request("Ida"))]
    assert [event.WhichOneof("payload") for event in events] == ["message"]


async def test_sdk_executor_stream_opens_before_the_first_event(open_door: Open) -> None:
    gate = asyncio.Event()

    async def waits(context: RequestContext, queue: EventQueue) -> None:
        await gate.wait()
        await reply_with_greeting(context, queue)

    door = await open_door(executor=ScriptedExecutor(waits))
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": _said("Ida")}}
    async with within("the stream ends"), door.http() as http, http.stream("POST", "/a2a", json=body) as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        assert response.headers["cache-control"] == "no-cache, no-store"
        assert response.headers["x-accel-buffering"] == "no"
        gate.set()
        told = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
    (only,) = told
    assert only["result"]["message"]["parts"] == [{"text": "Hello, Ida."}]


async def test_sdk_executor_message_reply_after_a_wait_is_the_only_event(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    """The position in the queue is not streamed before it is known whether the answer is a message."""
    mounted.write(mounted.layout.config_file, documents(limits={"maxConcurrentTurns": 1}))
    gate = asyncio.Event()

    async def waits(context: RequestContext, queue: EventQueue) -> None:
        await gate.wait()
        await reply_with_greeting(context, queue)

    door = await open_door(executor=ScriptedExecutor(waits))
    await door.call("SendMessage", {"message": _said("Ida"), "configuration": {"returnImmediately": True}})
    second = {**_said("Max"), "messageId": "second"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": second}}
    async with within("the stream ends"), door.http() as http, http.stream("POST", "/a2a", json=body) as response:
        (waiting,) = (await door.call("ListTasks", {"status": "TASK_STATE_SUBMITTED", "pageSize": 1}))["result"][
            "tasks"
        ]
        assert waiting["status"]["message"]["metadata"]["queuePosition"] == 1
        gate.set()
        told = [json.loads(line[6:]) async for line in response.aiter_lines() if line.startswith("data: ")]
    (only,) = told
    assert only["result"]["message"]["parts"] == [{"text": "Hello, Max."}]


async def test_sdk_executor_stream_slot_is_freed_on_early_disconnect(
    open_door: Open, mounted: Any, documents: Callable[..., Any]
) -> None:
    async def waits(context: RequestContext, queue: EventQueue) -> None:
        await asyncio.sleep(60)

    mounted.write(mounted.layout.config_file, documents(limits={"maxStreamsPerCaller": 1}))
    door = await open_door(executor=ScriptedExecutor(waits))

    async def opened(text: str) -> int:
        said = {**_said(text), "messageId": text}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendStreamingMessage", "params": {"message": said}}
        async with door.http() as http, http.stream("POST", "/a2a", json=body) as response:
            return int(response.status_code)

    async with within("the second stream opens"):
        assert await opened("first") == 200
        while await opened("second") != 200:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.05)


async def test_sdk_executor_repeated_message_streams_its_question(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(asks))
    async with within("both messages are answered"), door.client() as client:
        first = [event async for event in client.send_message(_request("A table, please."))]
        again = [event async for event in client.send_message(_request("A table, please."))]
    (task,) = again
    assert first[-1].status_update.status.state == TaskState.TASK_STATE_INPUT_REQUIRED
    assert task.task.status.state == TaskState.TASK_STATE_INPUT_REQUIRED


async def test_sdk_executor_stream_error_is_not_a_stream(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(reply_with_greeting))
    refused = await door.call("SendStreamingMessage", {"message": {**_said("Ida"), "taskId": "of-nobody"}})
    assert refused["error"]["code"] == -32001


async def test_sdk_executor_message_reply_to_an_answer_is_streamed(open_door: Open) -> None:
    async def asks_once(context: RequestContext, queue: EventQueue) -> None:
        await (asks if context.current_task is None else reply_with_greeting)(context, queue)

    door = await open_door(executor=ScriptedExecutor(asks_once))
    asked = await door.say("A table, please.")
    request = _request("four")
    request.message.task_id = asked["id"]
    async with door.client() as client:
        (told,) = [event async for event in client.send_message(request)]
    assert [part.text for part in told.message.parts] == ["Hello, four."]
    assert not told.message.metadata


async def test_sdk_executor_final_status_is_streamed(open_door: Open) -> None:
    async def ends(context: RequestContext, queue: EventQueue) -> None:
        await updater(context, queue).complete()

    door = await open_door(executor=ScriptedExecutor(ends))
    async with door.client() as client:
        told = [event async for event in client.send_message(_request("hello"))]
    assert [event.WhichOneof("payload") for event in told] == ["task", "status_update"]
    assert told[-1].status_update.status.state == TaskState.TASK_STATE_COMPLETED


async def test_sdk_executor_message_reply_ends_a_nonblocking_task(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(reply_with_greeting))
    task = await door.say("Ida", now=True)
    done = await door.until(task["id"], "TASK_STATE_COMPLETED")
    assert done["status"]["message"]["parts"] == [{"text": "Hello, Ida."}]


async def test_sdk_executor_interrupt_resumes_with_the_answer(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(asks))
    asked = await door.say("A table, please.")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert asked["status"]["message"]["parts"] == [{"text": "For how many?"}]
    done = await door.say("four", taskId=asked["id"])
    assert done["id"] == asked["id"]
    assert done["artifacts"][0]["parts"] == [{"text": "A table for four, after 1 messages."}]


@pytest.mark.parametrize(
    "said",
    [
        pytest.param({"id": "1"}, id="what a caller says of an ask"),
        pytest.param({"id": "1", "kind": "wish", "tool": "t"}, id="a kind of its own"),
        pytest.param({"id": "1", "kind": "approval", "tool": "t", "expires": "soon"}, id="a moment that is none"),
        pytest.param(
            {"id": "1", "kind": "approval", "tool": "t", "expires": "9999-12-31T00:00:00+00:00"},
            id="a moment later than the log's last",
        ),
        pytest.param({"id": "1", "kind": "approval", "tool": "t", "expires": 7}, id="a number for a moment"),
    ],
)
async def test_sdk_executor_ask_metadata_is_untrusted(open_door: Open, said: Any) -> None:
    async def parrots(context: RequestContext, queue: EventQueue) -> None:
        on = updater(context, queue)
        if context.current_task is not None:
            await on.complete()
            return
        question = on.new_agent_message([Part(text="For how many?")])
        question.metadata.update({"https://fleetwright.dev/a2a/ask/v1": said})
        await on.requires_input(question)

    door = await open_door(executor=ScriptedExecutor(parrots))
    task = await door.say("a table")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await door.say("four", taskId=task["id"]))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("where", ["status", "artifact"])
async def test_sdk_executor_unserialisable_event_fails_the_task(open_door: Open, where: str) -> None:
    async def poisons(context: RequestContext, queue: EventQueue) -> None:
        on = updater(context, queue)
        if where == "artifact":
            await on.add_artifact([Part(text="x")], metadata={"much": float("inf")})
        question = on.new_agent_message([Part(text="For how many?")])
        question.metadata.update({"much": float("inf")})
        await on.requires_input(question)

    door = await open_door(executor=ScriptedExecutor(poisons))
    assert (await door.say("a table"))["status"]["state"] == "TASK_STATE_FAILED"
    assert "result" in await door.call("ListTasks", {})


async def test_sdk_executor_is_stopped_and_notified_on_cancel(open_door: Open) -> None:
    stopped = asyncio.Event()

    async def hangs(context: RequestContext, queue: EventQueue) -> None:
        await updater(context, queue).start_work()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()

    executor = ScriptedExecutor(hangs)
    door = await open_door(executor=executor)
    task = await door.say("hello", now=True)
    await door.until(task["id"], "TASK_STATE_WORKING")
    cancelled = await door.call("CancelTask", {"id": task["id"]})
    assert cancelled["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert stopped.is_set()
    assert executor.cancelled == 1


async def raises(context: RequestContext, queue: EventQueue) -> None:
    await updater(context, queue).start_work()
    raise RuntimeError("secret detail")


async def says_nothing(context: RequestContext, queue: EventQueue) -> None:
    """Return without an event."""


async def stops_half_way(context: RequestContext, queue: EventQueue) -> None:
    await updater(context, queue).start_work()


async def names_another_task(context: RequestContext, queue: EventQueue) -> None:
    await TaskUpdater(queue, "of-somebody-else", context.context_id or "").complete()


async def says_a_message_after_its_task(context: RequestContext, queue: EventQueue) -> None:
    await works_without_end(context, queue)
    await reply_with_greeting(context, queue)


async def works_without_end(context: RequestContext, queue: EventQueue) -> None:
    on = updater(context, queue)
    await on.start_work()
    await on.add_artifact([Part(text="half")])


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(raises, id="an executor that raises"),
        pytest.param(says_nothing, id="one that returns without a word"),
        pytest.param(stops_half_way, id="one that returns without an end"),
        pytest.param(names_another_task, id="one that speaks of another task"),
        pytest.param(says_a_message_after_its_task, id="one that gives a message after events"),
    ],
)
async def test_sdk_executor_protocol_error_fails_the_task_generically(
    open_door: Open, script: Callable[..., Any]
) -> None:
    door = await open_door(executor=ScriptedExecutor(script))
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_FAILED"
    assert task["status"]["message"]["metadata"]["reason"] == "internal"
    assert "secret detail" not in str(task)


async def reuses_its_artifact(context: RequestContext, queue: EventQueue) -> None:
    event = TaskArtifactUpdateEvent(task_id=context.task_id, context_id=context.context_id)
    event.artifact.CopyFrom(new_text_artifact("answer", "one "))
    await queue.enqueue_event(event)
    event.artifact.parts[0].text, event.append = "two", True
    await queue.enqueue_event(event)
    event.artifact.parts[0].text = "three"
    await updater(context, queue).complete()


async def reuses_its_status(context: RequestContext, queue: EventQueue) -> None:
    event = TaskStatusUpdateEvent(task_id=context.task_id, context_id=context.context_id)
    event.status.state = TaskState.TASK_STATE_COMPLETED
    event.status.message.CopyFrom(new_text_message("one two", role=Role.ROLE_AGENT))
    await queue.enqueue_event(event)
    event.status.message.parts[0].text = "three"


async def reuses_its_reply(context: RequestContext, queue: EventQueue) -> None:
    reply = new_text_message("one two", role=Role.ROLE_AGENT)
    await queue.enqueue_event(reply)
    reply.parts[0].text = "three"


@pytest.mark.parametrize(
    "script",
    [
        pytest.param(reuses_its_artifact, id="an artifact"),
        pytest.param(reuses_its_status, id="a status"),
        pytest.param(reuses_its_reply, id="a message"),
    ],
)
async def test_sdk_executor_events_are_copied(open_door: Open, script: Callable[..., Any]) -> None:
    door = await open_door(executor=ScriptedExecutor(script))
    task = await door.until((await door.say("hello", now=True))["id"], "TASK_STATE_COMPLETED")
    async with door.client() as client:
        told = [event async for event in client.send_message(_request("hello"))]
    streamed = [part.text for event in told for part in _parts(event)]
    assert "three" not in str(task)
    assert "".join(streamed) == "one two"


def _parts(event: StreamResponse) -> Sequence[Part]:
    if event.HasField("message"):
        return event.message.parts
    return [*event.artifact_update.artifact.parts, *event.status_update.status.message.parts]


OLDER = {"A2A-Version": ""}
ASKED = {"message": {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}}
AUTH = "auth-required"


async def waits_for_a_credential(context: RequestContext, queue: EventQueue) -> None:
    await updater(context, queue).requires_auth()
    await works(context, queue)


async def rests_without_a_credential(context: RequestContext, queue: EventQueue) -> None:
    await updater(context, queue).requires_auth()


@pytest.mark.parametrize(
    ("script", "wanted"),
    [
        pytest.param(
            waits_for_a_credential,
            [(AUTH, False), ("working", False), ("completed", True)],
            id="whoever gets its credential meanwhile goes on",
        ),
        pytest.param(
            rests_without_a_credential, [(AUTH, False), (AUTH, True)], id="whoever returns without one has come to rest"
        ),
    ],
)
async def test_sdk_executor_auth_required_does_not_end_the_stream(
    open_door: Open, script: Callable[..., Any], wanted: Any
) -> None:
    door = await open_door(executor=ScriptedExecutor(script))
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": ASKED}
    async with door.http() as http:
        text = (await http.post("/a2a", json=body, headers=OLDER)).text
    told = [json.loads(line[6:])["result"] for line in text.splitlines() if line.startswith("data: ")]
    assert [(each["status"]["state"], each["final"]) for each in told if each["kind"] == "status-update"] == wanted
    assert told[-1]["status"]["state"] == wanted[-1][0]


async def test_sdk_executor_events_after_the_end_are_dropped(open_door: Open) -> None:
    async def goes_on(context: RequestContext, queue: EventQueue) -> None:
        await works(context, queue)
        await reply_with_greeting(context, queue)
        late = new_text_artifact("late", "too late")
        await queue.enqueue_event(
            TaskArtifactUpdateEvent(task_id=context.task_id, context_id=context.context_id, artifact=late)
        )

    door = await open_door(executor=ScriptedExecutor(goes_on))
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_COMPLETED"
    assert "too late" not in str(task)
    assert "Hello" not in str(task)


async def test_sdk_executor_task_belongs_to_its_caller(open_door: Open) -> None:
    seen: list[str] = []

    async def notes(context: RequestContext, queue: EventQueue) -> None:
        assert context.call_context is not None
        seen.append(context.call_context.user.user_name)
        await works(context, queue)

    door = await open_door(executor=ScriptedExecutor(notes))
    task = await door.say("hello")
    assert seen == ["client:default"]
    other = await door.call("GetTask", {"id": task["id"]}, owner="client:other")
    assert other["error"]["code"] == -32001
    assert task["status"]["state"] == TaskState.Name(TaskState.TASK_STATE_COMPLETED)


def _said(text: str) -> dict[str, Any]:
    return {"messageId": "m-1", "role": "ROLE_USER", "parts": [{"text": text}]}


def _request(text: str) -> SendMessageRequest:
    return SendMessageRequest(message=Message(message_id=f"s-{text}", role=Role.ROLE_USER, parts=[Part(text=text)]))


LOCATED = "https://example.com/extensions/located/v1"
V10, V03, V01 = {"A2A-Version": "1.0"}, {"A2A-Version": "0.3"}, {"A2A-Version": "0.1"}
SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
SAID_03 = {"kind": "message", "messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "hello"}]}
REST_03 = {"messageId": "m", "role": "ROLE_USER", "content": [{"text": "hello"}]}
SAID_01 = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}


def rpc(method: str, params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}


async def locates(context: RequestContext, queue: EventQueue) -> None:
    await queue.enqueue_event(new_text_message(", ".join(context.requested_extensions), role=Role.ROLE_AGENT))


@pytest.fixture
def demanding(mounted: Any) -> None:
    """Write a card that requires an extension."""
    card = json.loads(mounted.layout.card_file.read_text())
    card["capabilities"]["extensions"] = [{"uri": LOCATED, "required": True}, {"uri": "urn:optional"}]
    mounted.write(mounted.layout.card_file, card)


@pytest.mark.usefixtures("demanding")
@pytest.mark.parametrize(
    ("path", "headers", "body", "code"),
    [
        pytest.param("/a2a", V10, rpc("SendMessage", {"message": SAID}), -32008, id="1.0"),
        pytest.param("/a2a", V10, rpc("SendStreamingMessage", {"message": SAID}), -32008, id="a stream of 1.0"),
        pytest.param("/a2a", V10, rpc("GetTask", {"id": "x"}), -32008, id="a task of 1.0"),
        pytest.param("/a2a/message:send", V10, {"message": SAID}, 400, id="HTTP and JSON of 1.0"),
        pytest.param("/a2a", V03, rpc("message/send", {"message": SAID_03}), -32004, id="0.3"),
        pytest.param("/a2a", V03, rpc("message/stream", {"message": SAID_03}), -32004, id="a stream of 0.3"),
        pytest.param("/a2a/v1/message:send", V03, {"message": REST_03}, -32004, id="HTTP and JSON of 0.3"),
        pytest.param("/a2a", V01, rpc("tasks/send", {"id": "t", "message": SAID_01}), -32004, id="0.1"),
    ],
)
async def test_required_extension_missing_in_a_request_is_refused(
    open_door: Open, path: str, headers: dict[str, str], body: dict[str, Any], code: int
) -> None:
    executor = ScriptedExecutor(locates)
    door = await open_door(executor=executor)
    async with door.http() as http:
        refused = await http.post(path, json=body, headers=headers)
        text = refused.text.removeprefix("data: ")
        document = json.loads(text)
        error = document if code == -32004 and "code" in document else document["error"]
        assert (error["code"], LOCATED in error["message"], executor.runs) == (code, True, 0)
        taken = await http.post(path, json=body, headers=headers | {"A2A-Extensions": f"urn:x, {LOCATED}"})
    assert "requires" not in taken.text
    assert taken.headers["a2a-extensions"] == LOCATED


@pytest.mark.usefixtures("demanding")
async def test_sdk_executor_sees_the_requested_extensions(open_door: Open) -> None:
    door = await open_door(executor=ScriptedExecutor(locates))
    async with door.http() as http:
        answer = await http.post(
            "/a2a", json=rpc("SendMessage", {"message": SAID}), headers={"A2A-Extensions": LOCATED}
        )
    assert answer.json()["result"]["message"]["parts"] == [{"text": LOCATED}]


@pytest.mark.parametrize(
    ("part", "taken"),
    [
        pytest.param({"data": {"guests": 4}}, True, id="values"),
        pytest.param({"raw": "iVBORw==", "mediaType": "image/png"}, True, id="a picture"),
        pytest.param({"raw": "iVBORw==", "mediaType": "image/gif"}, False, id="a picture of another kind"),
        pytest.param({"raw": "aGVsbG8=", "mediaType": "text/plain"}, False, id="text that is sent as a file"),
        pytest.param({"raw": "aGVsbG8="}, False, id="bytes of no kind"),
    ],
)
async def test_sdk_executor_gets_only_input_modes_of_its_card(
    open_door: Open, mounted: Any, part: dict[str, Any], *, taken: bool
) -> None:
    async def counts(context: RequestContext, queue: EventQueue) -> None:
        assert context.message is not None
        kinds = [each.WhichOneof("content") for each in context.message.parts]
        await queue.enqueue_event(new_text_message(" ".join(kinds), role=Role.ROLE_AGENT))

    card = json.loads(mounted.layout.card_file.read_text()) | {
        "defaultInputModes": ["text/plain", "application/json", "image/png"]
    }
    mounted.write(mounted.layout.card_file, card)
    door = await open_door(executor=ScriptedExecutor(counts))
    answer = await door.call("SendMessage", {"message": {**_said("look"), "parts": [part]}})
    if taken:
        assert answer["result"]["message"]["parts"] == [{"text": next(iter(part))}]
    else:
        assert answer["error"]["code"] == -32005
        assert "application/json, image/png, text/plain" in answer["error"]["message"]


async def says_all(context: RequestContext, queue: EventQueue) -> None:
    """Send only an answer, wait for a credential, or exceed the size limit of an artifact."""
    asked, on = context.get_user_input(), updater(context, queue)
    if asked == "reply":
        await reply_with_greeting(context, queue)
        return
    if asked == "wait":
        await on.requires_auth()
    await on.add_artifact([Part(text="x" * 5 * 1024 * 1024)])
    await on.complete()


async def test_sdk_executor_events_match_the_compiled_card(open_door: Open, mounted: Any) -> None:
    spec = {"description": "d", "executor": {"name": "dice:Dice", "inputModes": ["text/plain", "image/png"]}}
    card = agent_card(
        parse_agent({"metadata": {"name": "echo", "namespace": "team"}, "spec": spec}), url="http://echo", skills=[]
    )
    mounted.write(mounted.layout.card_file, card)
    door = await open_door(executor=ScriptedExecutor(says_all))
    said: list[Any] = []
    for text in ("wait", "reply"):
        params = {"message": {**_said(text), "messageId": text}}
        async with door.http() as http, http.stream("POST", "/a2a", json=rpc("SendStreamingMessage", params)) as told:
            said += [line async for line in told.aiter_lines()]
    said.append(await door.call("ListTasks", {}))
    async with door.http() as http:
        params = {"id": "mine", "message": {"role": "user", "parts": [{"type": "text", "text": "more"}]}}
        await http.post("/a2a", json=rpc("tasks/send", params), headers={"A2A-Version": "0.1"})
    said.append(await door.get("mine"))
    extension = r"https://(?:proto-labs\.ai/a2a/ext|fleetwright\.dev/a2a)/[a-z0-9-]+(?:/v\d+)?"
    seen = set(re.findall(extension, json.dumps(said)))
    assert seen == {each["uri"] for each in card["capabilities"]["extensions"]}
    picture = {"messageId": "p", "role": "ROLE_USER", "parts": [{"raw": "AA==", "mediaType": "image/png"}]}
    assert "result" in await door.call("SendMessage", {"message": picture})
