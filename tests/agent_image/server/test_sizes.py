"""Size limits of growing tasks."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extensions import ASK
from fleetwright_agent.protocol.frames import (
    Frame,
    InterruptKind,
    InterruptRequest,
    Text,
    ToolEnd,
    ToolOutput,
    ToolStart,
    TurnDone,
    TurnRequest,
)
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.size_limits import (
    MOST_MESSAGES,
    MOST_OF_ARTIFACTS,
    MOST_PASSING,
    TRUNCATED,
    TaskSize,
    is_full,
)
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import AcceptedClaim, Claim, StoredTask

Open = Callable[..., Any]


def piece(text: str, *, append: bool = True, identity: str = "a") -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id=identity, parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


def test_task_size_truncates_the_last_chunk_and_drops_the_rest() -> None:
    room = TaskSize(Task(), most=100)
    texts = []
    for _ in range(6):
        event = room.fit(piece("x" * 20))
        texts.append(event.artifact.parts[0].text if isinstance(event, TaskArtifactUpdateEvent) else None)
    assert texts[:3] == ["x" * 20] * 3
    assert texts[3] is not None
    assert 0 < len(texts[3]) < 20
    assert texts[4:] == [None, None]


def test_task_size_whole_answer_replaces_chunks_and_is_marked() -> None:
    room = TaskSize(Task(), most=100)
    room.fit(piece("x" * 60))
    whole = room.fit(piece("y" * 500, append=False))
    assert isinstance(whole, TaskArtifactUpdateEvent)
    assert 50 < len(whole.artifact.parts[0].text) <= 100
    assert whole.artifact.metadata[TRUNCATED] is True


def test_task_size_truncates_at_character_boundaries() -> None:
    whole = TaskSize(Task(), most=50).fit(piece("é" * 100, append=False))
    assert isinstance(whole, TaskArtifactUpdateEvent)
    assert set(whole.artifact.parts[0].text) == {"é"}


def test_task_size_always_admits_messages_and_bare_statuses() -> None:
    room = TaskSize(Task(), most=0, most_said=0, most_passing=0)
    room.fit(told("late"))
    for event in (TaskStatusUpdateEvent(task_id="t"), Message(parts=[Part(text="x" * 500)])):
        assert room.fit(event) is event


def spoken(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)])


def told(text: str, state: TaskState = TaskState.TASK_STATE_WORKING) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", status=TaskStatus(state=state, message=spoken(text)))


def message_of(event: Any) -> Message:
    assert isinstance(event, TaskStatusUpdateEvent)
    return event.status.message


def test_task_size_truncates_passing_messages_and_marks_them() -> None:
    room = TaskSize(Task(), most_passing=300)
    messages = [message_of(room.fit(told(text))) for text in ("y" * 60, "z" * 500, "late" * 20)]
    assert messages[0] == spoken("y" * 60)
    assert 0 < len(messages[1].parts[0].text) < 240
    assert messages[2].parts[0].text == "…"
    assert [TRUNCATED in message.metadata for message in messages] == [False, True, True]


def test_task_size_keeps_the_last_message_despite_progress() -> None:
    room = TaskSize(Task(), most_said=1000, most_passing=100)
    for _ in range(5):
        room.fit(told("x" * 500))
    question = told("Shall I?" * 20, TaskState.TASK_STATE_INPUT_REQUIRED)
    assert room.fit(question, is_last=True) is question


def test_task_size_keeps_an_interrupt_despite_progress() -> None:
    room = TaskSize(Task(), most_passing=100)
    room.fit(told("x" * 500))
    url, endless = (told("https://idp/" + "x" * length, TaskState.TASK_STATE_AUTH_REQUIRED) for length in (9, 500))
    assert room.fit(url) is url
    assert message_of(room.fit(endless)).ByteSize() < 250


@pytest.mark.parametrize(
    ("said", "most", "whole"),
    [
        pytest.param([], 1000, True, id="an empty history"),
        pytest.param([spoken("x" * 990)], 1000, False, id="a history of the largest size"),
        pytest.param([spoken("x" * 990)], 2000, True, id="a history that leaves space"),
        pytest.param([Message(role=Role.ROLE_USER, parts=[Part(text="x" * 990)])], 1000, True, id="a caller's history"),
    ],
)
def test_task_size_counts_history_against_the_last_message(said: list[Message], most: int, whole: bool) -> None:
    room = TaskSize(Task(history=said), most_said=most, reserved=300)
    last = message_of(room.fit(told("y" * 500, TaskState.TASK_STATE_FAILED), is_last=True))
    assert (last == spoken("y" * 500)) is whole
    assert len(last.parts[0].text) > 100
    assert last.ByteSize() <= (1000 if whole else 300)


@pytest.mark.parametrize(("size", "kept"), [(100, True), (5000, False)])
def test_task_size_drops_large_metadata_of_passing_messages(size: int, kept: bool) -> None:
    event = told("x" * 500)
    event.status.message.metadata["output"] = "x" * size
    passed = message_of(TaskSize(Task(), most_passing=0).fit(event))
    assert ("output" in passed.metadata, TRUNCATED in passed.metadata) == (kept, True)
    assert passed.ByteSize() < 1024


@pytest.mark.parametrize(
    ("task", "full"),
    [
        pytest.param(Task(history=[Message()] * (MOST_MESSAGES - 1)), False, id="one message is left"),
        pytest.param(Task(history=[Message()] * MOST_MESSAGES), True, id="as many as there may be"),
        pytest.param(Task(history=[Message(parts=[Part(text="x" * 9_000_000)])]), True, id="one that is very long"),
    ],
)
def test_is_full_limits_the_messages_of_a_task(task: Task, full: bool) -> None:
    assert is_full(task, Message()) is full


async def test_endless_answer_is_stored_and_returned_up_to_the_limit(open_door: Open) -> None:
    async def endless(_: TurnRequest) -> AsyncIterator[Frame]:
        for _ in range(12):
            yield Text("x" * 1_000_000)
        yield TurnDone("x" * 12_000_000)

    door = await open_door(endless)
    task = await door.say("go")
    assert task["status"]["state"] == TaskState.Name(TaskState.TASK_STATE_COMPLETED)
    (artifact,) = task["artifacts"]
    assert len(artifact["parts"][0]["text"]) <= MOST_OF_ARTIFACTS
    assert artifact["metadata"][TRUNCATED] is True
    assert await door.get(task["id"]) == task


def noisy_turn(calls: int, ask: InterruptRequest) -> Callable[[TurnRequest], AsyncIterator[Frame]]:
    async def turn(_: TurnRequest) -> AsyncIterator[Frame]:
        for number in range(calls):
            yield ToolStart(f"c{number}", "run", "{}")
            yield ToolOutput(f"c{number}", "run", "o" * 50_000)
            yield ToolEnd(f"c{number}", "run", ok=True, result="done", characters=50_000)
        yield ask

    return turn


_FORM = {"question": "Who?", "schema": {"type": "object", "properties": {"name": {"type": "string"}}}}


@pytest.mark.parametrize(
    ("calls", "kind", "payload", "arguments"),
    [
        pytest.param(45, InterruptKind.QUESTION, {"question": "Shall I?"}, None, id="a question"),
        pytest.param(60, InterruptKind.FORM, _FORM, None, id="a form"),
        pytest.param(45, InterruptKind.APPROVAL, {"title": "Delete?"}, {"branch": "7"}, id="an approval"),
    ],
)
async def test_question_is_whole_after_much_tool_output(
    open_door: Open, calls: int, kind: InterruptKind, payload: Any, arguments: Any
) -> None:
    prompt = "Shall I delete the branch release-7?"
    ask = InterruptRequest(kind, prompt, payload, identity="ask-1", tool="run", arguments=arguments)
    door = await open_door(noisy_turn(calls, ask))
    task = await door.say("go")
    message = task["status"]["message"]
    assert task["status"]["state"] == TaskState.Name(TaskState.TASK_STATE_INPUT_REQUIRED)
    assert message["parts"][0] == {"text": prompt}
    assert message["parts"][1]["data"] == payload
    assert message["parts"][1]["metadata"]
    assert message["metadata"][ASK]["id"] == "ask-1"
    assert TRUNCATED not in message["metadata"]


async def test_progress_of_a_resumed_task_has_new_space() -> None:
    log = MemoryTaskLog()
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    answer = await log.accept(Claim("o", "m1", b"1"), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    live = ActiveTasks(log, Clock()).add(StoredTask(n=answer.n, owner="o", seq=1, busy=True, task=task))
    for _ in range(2):
        live.append(told("x" * MOST_PASSING))
    assert live.task.status.message.parts[0].text == "…"
    await live.rest((told("Shall I?", TaskState.TASK_STATE_INPUT_REQUIRED),))
    await live.resume(Claim("o", "m2", b"2"), Message(message_id="m2", role=Role.ROLE_USER, parts=[Part(text="yes")]))
    live.append(told("x" * 1000))
    assert live.task.status.message == spoken("x" * 1000)
    assert live.task.history[0] == spoken("Shall I?")
