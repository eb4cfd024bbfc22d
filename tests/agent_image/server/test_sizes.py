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

from fleetwright_agent.protocol.frames import Frame, Text, TurnDone, TurnRequest
from fleetwright_agent.server.tasks.size_limits import MOST_MESSAGES, MOST_OF_ARTIFACTS, TRUNCATED, TaskSize, is_full

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
    room = TaskSize(Task(), most=0, most_said=0)
    for event in (TaskStatusUpdateEvent(task_id="t"), Message(parts=[Part(text="x" * 500)])):
        assert room.fit(event) is event


def spoken(text: str) -> Message:
    return Message(role=Role.ROLE_AGENT, parts=[Part(text=text)])


def told(text: str) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task_id="t", status=TaskStatus(message=spoken(text)))


def test_task_size_truncates_status_messages_and_marks_them() -> None:
    before = Task(history=[spoken("x" * 20), Message(role=Role.ROLE_USER, parts=[Part(text="x" * 500)])])
    room = TaskSize(before, most_said=200)
    said = [room.fit(told("y" * 60)), room.fit(told("z" * 500)), room.fit(told("late"))]
    messages = [event.status.message for event in said if isinstance(event, TaskStatusUpdateEvent)]
    assert messages[0] == spoken("y" * 60)
    assert 0 < len(messages[1].parts[0].text) < 140
    assert messages[2].parts[0].text == "…"
    assert [TRUNCATED in message.metadata for message in messages] == [False, True, True]


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
