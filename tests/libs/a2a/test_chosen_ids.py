"""Ids that callers of A2A 0.1 choose: how a task is found by its history, and when a message is a repetition."""

import pytest
from a2a.types.a2a_pb2 import Message, Part, Role, Task, TaskState, TaskStatus

from fleetwright_a2a.dialects.chosen_ids import ChosenId, is_too_late

MINE = ChosenId.of("mine", caller="ada", agent="uid-1")


def said(text: str) -> Message:
    return Message(role=Role.ROLE_USER, parts=[Part(text=text)])


def history(*messages: tuple[str, str | int | None]) -> Task:
    """Return a task with these messages of the caller, each with its request id."""
    task = Task(id="t")
    for place, (text, request_id) in enumerate(messages):
        message = said(text)
        message.message_id = MINE.message_id(message, request_id, task=task, random=f"random{place}")
        task.history.append(message)
    return task


@pytest.mark.parametrize(
    ("earlier", "text", "request_id", "is_known"),
    [
        pytest.param([], "a", 1, False, id="the first message"),
        pytest.param([("a", 1)], "a", 1, True, id="the first message again"),
        pytest.param([("a", 1)], "a", 2, False, id="another request with the same text"),
        pytest.param([("a", 1)], "a", "1", False, id="a text as request id"),
        pytest.param([("a", 1)], "b", 1, False, id="another text with the same request id"),
        pytest.param([("a", 1), ("b", 1)], "a", 1, False, id="a request id for two texts"),
        pytest.param([("a", None)], "a", None, False, id="no request id"),
        pytest.param([("a", 1), ("b", 2)], "b", 2, True, id="the second message again"),
    ],
)
def test_message_id_recognises_a_repeated_message(earlier, text, request_id, is_known):
    task = history(*earlier)
    found = MINE.message_id(said(text), request_id, task=task, random="fresh")
    assert (found in {each.message_id for each in task.history}) is is_known


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(ChosenId.of("mine", caller="grace", agent="uid-1"), id="another caller"),
        pytest.param(ChosenId.of("mine", caller="ada", agent="uid-2"), id="another agent"),
        pytest.param(ChosenId.of("other", caller="ada", agent="uid-1"), id="another id"),
        pytest.param(ChosenId.of("1mine", caller="ada", agent="uid-"), id="the same letters"),
    ],
)
def test_task_is_found_only_under_its_own_id(other):
    tasks = [Task(id="u", history=[said("x")]), history(("a", 1)), history(("a", 1))]
    assert MINE.find(tasks) is tasks[1]
    assert other.find(tasks) is None
    assert other.context_id != MINE.context_id


def test_reply_becomes_a_completed_task():
    task = MINE.answered(said("x"), context_id="c")
    assert (task.id, task.context_id, task.status.state) == ("mine", "c", TaskState.TASK_STATE_COMPLETED)
    assert task.status.message == said("x")


@pytest.mark.parametrize(
    ("state", "seconds", "late"),
    [
        pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, 60, False, id="a minute after the question"),
        pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, 61, True, id="more than a minute after the question"),
        pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, -5, False, id="a clock that is behind"),
        pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, None, False, id="a status without a time"),
        pytest.param(TaskState.TASK_STATE_AUTH_REQUIRED, 61, False, id="work that may continue"),
        pytest.param(TaskState.TASK_STATE_WORKING, 61, False, id="a running task"),
        pytest.param(TaskState.TASK_STATE_COMPLETED, 61, False, id="a task that has ended"),
    ],
)
def test_is_too_late_a_minute_after_a_question(state, seconds, late):
    task, asked_ns = Task(status=TaskStatus(state=state)), 1_000_000_000_000
    if seconds is not None:
        task.status.timestamp.FromNanoseconds(asked_ns)
    assert is_too_late(task, now_ns=asked_ns + (seconds or 0) * 1_000_000_000) is late
