"""The records of calls of other agents: their course, their texts, and calls that no turn ends."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from fleetwright_a2a.redaction.redactor import REDACTED, Redactor
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.open_questions import DelegatedTask, PeerCall, PeerCallStatus, QuestionKey
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.tools.peers.call_records import MOST_CHARACTERS, CallRecords, PeerCallRecord
from fleetwright_agent.tools.port import ToolCall, ToolError

PENDING, DISPATCHED, COMPLETED, FAILED = PeerCallStatus
COOK = QuestionKey("client:a", "c", "n/cook")
Course = Callable[[PeerCallRecord], Awaitable[None]]


def call(key: str = "1", *, message: str = "boil", task: str = "t") -> ToolCall:
    return ToolCall({"message": message}, TurnRequest("client:a", "c", task, "x"), lambda _: None, key=key)


class Time:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        self.seconds += 1
        return self.seconds


def records_in(storage: Storage, redact: Callable[[str], str] = str) -> CallRecords:
    return CallRecords(storage.peer_calls, storage.delegated, redact=redact, now=Time())


async def nothing(_: PeerCallRecord) -> None:
    """Send nothing."""


async def answered(record: PeerCallRecord) -> None:
    await record.dispatched("remote")
    await record.ended(COMPLETED, "eggs")


async def asked(record: PeerCallRecord) -> None:
    await record.dispatched("remote")
    await record.asked("How many?")


def raising(error: BaseException) -> Course:
    async def course(record: PeerCallRecord) -> None:
        await record.dispatched("remote")
        raise error

    return course


def outcome(found: PeerCall) -> tuple[Any, ...]:
    return found.status, found.peer_task_id, found.result, found.ended_at


@pytest.mark.parametrize(
    ("course", "wanted"),
    [
        pytest.param(nothing, (PENDING, "", "", None), id="not sent"),
        pytest.param(answered, (COMPLETED, "remote", "eggs", 2.0), id="answer"),
        pytest.param(asked, (DISPATCHED, "remote", "How many?", None), id="question"),
        pytest.param(raising(ToolError("no eggs")), (FAILED, "remote", "no eggs", 2.0), id="no answer"),
        pytest.param(
            raising(asyncio.CancelledError()), (FAILED, "remote", "the call was cancelled", 2.0), id="cancelled"
        ),
        pytest.param(
            raising(KeyError("x")), (FAILED, "remote", "the call failed because of an internal error", 2.0), id="defect"
        ),
    ],
)
async def test_record_shows_the_course_of_a_call(course: Course, wanted: tuple[Any, ...]) -> None:
    storage = memory_storage()
    with suppress(ToolError, asyncio.CancelledError, KeyError):
        async with records_in(storage).record(COOK, call()) as record:
            (stored,) = await storage.peer_calls.of()
            await course(record)
    assert (outcome(stored), stored.request, stored.began_at) == ((PENDING, "", "", None), "boil", 1.0)
    (found,) = await storage.peer_calls.of("client:a", "c")
    assert (outcome(found), found.id, found.task_id, found.peer) == (wanted, stored.id, "t", "n/cook")


async def test_repeated_call_updates_its_record() -> None:
    storage = memory_storage()
    records = records_in(storage)
    async with records.record(COOK, call()) as record:
        await record.dispatched("remote")
    for key, task in (("1", "t"), ("2", "t"), ("1", "u")):
        async with records.record(COOK, call(key, task=task)):
            pass
    found = await storage.peer_calls.of()
    assert [(each.task_id, outcome(each)) for each in found] == [
        ("u", (PENDING, "", "", None)),
        ("t", (PENDING, "", "", None)),
        ("t", (PENDING, "remote", "", None)),
    ]


async def test_answer_completes_the_call_that_was_asked() -> None:
    storage = memory_storage()
    records = records_in(storage)
    async with records.record(COOK, call("1")) as record:
        await asked(record)
    async with records.record(COOK, call("2", message="two")) as record:
        await record.answers("remote")
        await record.ended(COMPLETED, "two eggs")
    assert [(each.request, *outcome(each)[:3]) for each in await storage.peer_calls.of()] == [
        ("two", COMPLETED, "remote", "two eggs"),
        ("boil", COMPLETED, "remote", "How many?"),
    ]


TOKEN = "ghp_" + "a1" * 15


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("boil", "boil", id="short"),
        pytest.param("x" * 301, "x" * 299 + "…", id="long"),
        pytest.param("x" * 300, "x" * 300, id="as long as allowed"),
        pytest.param(f"use {TOKEN} now", f"use {REDACTED} now", id="secret"),
        pytest.param("x " * 140 + TOKEN, "x " * 140 + REDACTED, id="secret at the cut"),
        pytest.param("a\ud800b", "a?b", id="lone surrogate"),
    ],
)
async def test_texts_are_short_and_without_secrets(text: str, wanted: str) -> None:
    storage = memory_storage()
    records = records_in(storage, Redactor().text)
    async with records.record(COOK, call("1", message=text)) as record:
        await record.ended(COMPLETED, text)
    with suppress(ToolError):
        async with records.record(COOK, call("2", message=text)):
            raise ToolError(text)
    found = await storage.peer_calls.of()
    assert [text for each in found for text in (each.request, each.result)] == [wanted] * 4
    assert len(wanted) <= MOST_CHARACTERS


class UnusablePeerCalls:
    """A store that cannot be used."""

    async def begin(self, call: PeerCall) -> PeerCall:
        raise MemoryUnusable("the volume is full")

    async def update(self, call: PeerCall) -> None:
        raise MemoryUnusable("the volume is full")

    async def of(self, owner: str = "", context_id: str = "") -> list[PeerCall]:
        raise MemoryUnusable("the volume is full")

    async def expire(self, before: float) -> None:
        raise MemoryUnusable("the volume is full")

    async def oldest(self) -> float | None:
        raise MemoryUnusable("the volume is full")


async def test_call_without_a_record_does_not_fail(caplog: pytest.LogCaptureFixture) -> None:
    records = CallRecords(UnusablePeerCalls(), memory_storage().delegated, redact=str, now=Time())
    for key in "12":
        async with records.record(COOK, call(key)) as record:
            await record.answers("remote")
            await record.asked("How many?")
            await record.ended(COMPLETED, "eggs")
    assert [line.message for line in caplog.records] == ["a call to another agent could not be recorded"] * 2
    await records.ended(COOK, "remote", COMPLETED, "eggs")
    records.over("client:a", "t")
    await records.aclose()
    assert len(caplog.records) == 3


async def test_result_ends_the_call_that_did_not_wait() -> None:
    storage = memory_storage()
    records = records_in(storage)
    for key, task in (("1", "remote"), ("2", "other")):
        async with records.record(COOK, call(key)) as record:
            await record.dispatched(task)
    await records.asked(COOK, "remote", "How many?", "later")
    await records.ended(QuestionKey("client:b", "c", "n/cook"), "other", FAILED, "not yours")
    await records.ended(COOK, "other", FAILED, "no eggs")
    await records.ended(COOK, "other", COMPLETED, "too late")
    assert [(each.task_id, *outcome(each)[:3]) for each in await storage.peer_calls.of()] == [
        ("t", FAILED, "other", "no eggs"),
        ("later", DISPATCHED, "remote", "How many?"),
    ]


@pytest.mark.parametrize(
    ("course", "task", "delegated", "wanted"),
    [
        pytest.param(nothing, "t", False, (FAILED, "ended before the result was known"), id="killed before sending"),
        pytest.param(asked, "t", False, (FAILED, "without an answer to the question: How many?"), id="question"),
        pytest.param(answered, "t", False, (COMPLETED, "eggs"), id="answered"),
        pytest.param(asked, "other", False, (DISPATCHED, "How many?"), id="another task"),
        pytest.param(asked, "t", True, (DISPATCHED, "How many?"), id="a later turn gets the result"),
    ],
)
async def test_end_of_a_task_ends_its_calls(
    course: Course, task: str, delegated: bool, wanted: tuple[PeerCallStatus, str]
) -> None:
    storage = memory_storage()
    records = records_in(storage)
    async with records.record(COOK, call()) as record:
        await course(record)
    if delegated:
        await storage.delegated.put(DelegatedTask("client:a", "c", "n/cook", "remote"))
    records.over("client:b", "t")
    records.over("client:a", task)
    await records.aclose()
    (found,) = await storage.peer_calls.of()
    assert found.status is wanted[0]
    assert found.result.endswith(wanted[1])
