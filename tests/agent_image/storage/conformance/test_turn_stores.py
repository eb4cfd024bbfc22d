"""The contracts of the tool journal, the call windows, the grants and the open questions of peers."""

import asyncio

import pytest
from tests.agent_image.storage.conformance.conftest import SettableClock

from fleetwright_agent.storage.call_windows import CallLimitWindow
from fleetwright_agent.storage.conversations import SideThread, conversation
from fleetwright_agent.storage.grants import StoredGrant
from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, QuestionKey
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tool_journal import CallState, JournalEntry, StartedCall

THREAD = conversation("a", "c")
TASK = SideThread("a", "c", "t")


async def test_journal_keeps_the_newest_state_of_a_call(storage: Storage) -> None:
    journal = storage.journal
    assert await journal.get(THREAD, "1") is None
    await journal.put(THREAD, "1", CallState.WAITING, {"asks": 1})
    await journal.begin(THREAD, "1", StartedCall("rope", {"length": 2}))
    assert await journal.begun(THREAD, below=TASK.thread) == [StartedCall("rope", {"length": 2})]
    await journal.done(THREAD, "1", ["ok"])
    assert await journal.get(THREAD, "1") == JournalEntry(CallState.DONE, ["ok"])
    assert await journal.begun(THREAD, below=TASK.thread) == []


async def test_journal_finds_started_calls_of_sub_agents(storage: Storage) -> None:
    await storage.journal.begin(TASK.delegated("x"), "1", StartedCall("knot", {}))
    await storage.journal.begin(SideThread("a", "c", "other").thread, "2", StartedCall("rope", {}))
    assert await storage.journal.begun(THREAD, below=TASK.thread) == [StartedCall("knot", {})]


async def test_settle_replaces_the_unfinished_calls(storage: Storage) -> None:
    thread = TASK.delegated("x")
    await storage.journal.begin(thread, "1", StartedCall("knot", {}))
    await storage.journal.done(thread, "2", "kept")
    await storage.journal.settle(thread, "outcome", {"text": "done"})
    states = [await storage.journal.get(thread, call) for call in ("1", "2", "outcome")]
    assert states == [None, JournalEntry(CallState.DONE, "kept"), JournalEntry(CallState.DONE, {"text": "done"})]


async def test_forget_deletes_the_calls_of_a_thread(storage: Storage) -> None:
    await storage.journal.done(THREAD, "1", None)
    storage.journal.forget(THREAD)
    await storage.journal.settled(THREAD)
    assert await storage.journal.get(THREAD, "1") is None


async def test_admit_counts_a_call_in_all_windows_or_none(storage: Storage, clock: SettableClock) -> None:
    short, long = CallLimitWindow("tool", 2, 10), CallLimitWindow("all", 3, 60)
    for _ in range(2):
        assert await storage.call_windows.admit([long, short]) is None
    assert await storage.call_windows.admit([long, short]) == (short, 10.0)
    clock.seconds += 4
    assert await storage.call_windows.admit([long, short]) == (short, 6.0)
    clock.seconds += 7
    assert await storage.call_windows.admit([long, short]) is None
    assert await storage.call_windows.admit([long, short]) == (long, 49.0)


async def test_admit_ignores_calls_in_the_future(storage: Storage, clock: SettableClock) -> None:
    window = CallLimitWindow("tool", 1, 10)
    assert await storage.call_windows.admit([window]) is None
    clock.seconds -= 100
    assert await storage.call_windows.admit([window]) is None


async def test_grants_belong_to_a_tool_in_a_conversation(storage: Storage, clock: SettableClock) -> None:
    await storage.grants.put("a", "c", "rope", ["short", "long"])
    await storage.grants.put("a", "d", "rope", ["short"])
    assert await storage.grants.keys("a", "c", "rope") == {"short", "long"}
    assert await storage.grants.keys("a", "c", "knot") == frozenset()
    assert await storage.grants.of("a", "d") == [StoredGrant("d", "rope", "short", clock.now())]
    await storage.conversations.forget([("a", "c")])
    assert [each.context_id for each in await storage.grants.of("a")] == ["d"]


async def test_question_is_taken_once(storage: Storage) -> None:
    key = QuestionKey("a", "c", "n/cook")
    await storage.questions.put(OpenQuestion(key, "first", "t"))
    await storage.questions.put(OpenQuestion(key, "second", "t"))
    taken = await asyncio.gather(storage.questions.take(key), storage.questions.take(key))
    assert taken == [OpenQuestion(key, "second", "t"), None]


@pytest.mark.parametrize(
    ("question", "removed"),
    [
        pytest.param(OpenQuestion(QuestionKey("a", "c", "n/cook"), "one", "t"), True, id="the question"),
        pytest.param(OpenQuestion(QuestionKey("a", "c", "n/cook"), "two", "t"), False, id="another task of the peer"),
        pytest.param(OpenQuestion(QuestionKey("a", "c", "n/cook"), "one", "u"), False, id="asked in another task"),
        pytest.param(OpenQuestion(QuestionKey("b", "c", "n/cook"), "one", "t"), False, id="another caller"),
    ],
)
async def test_only_the_same_question_is_removed(storage: Storage, question: OpenQuestion, removed: bool) -> None:
    kept = OpenQuestion(QuestionKey("a", "c", "n/cook"), "one", "t")
    await storage.questions.put(kept)
    assert await storage.questions.remove(question) is removed
    assert await storage.questions.all() == ([] if removed else [kept])


@pytest.mark.parametrize(
    ("owner", "task", "found"),
    [
        pytest.param("a", "t", ["one"], id="the task"),
        pytest.param("a", "u", ["two"], id="another task"),
        pytest.param("b", "t", [], id="another caller"),
    ],
)
async def test_questions_of_a_task_are_listed(storage: Storage, owner: str, task: str, found: list[str]) -> None:
    await storage.questions.put(OpenQuestion(QuestionKey("a", "c", "n/cook"), "one", "t"))
    await storage.questions.put(OpenQuestion(QuestionKey("a", "c", "n/desk"), "two", "u"))
    assert [each.task_id for each in await storage.questions.of(owner, task)] == found
    assert [each.task_id for each in await storage.questions.all()] == ["one", "two"]


async def test_delegated_tasks_are_kept_until_they_are_removed(storage: Storage) -> None:
    first, second = (DelegatedTask("a", "c", "n/cook", name) for name in ("one", "two"))
    for task in (
        first,
        second,
        first,
        DelegatedTask("a", "d", "n/cook", "one"),
        DelegatedTask("b", "c", "n/cook", "x"),
    ):
        await storage.delegated.put(task)
    assert await storage.delegated.of("a", "c") == [first, second]
    for _ in range(2):
        await storage.delegated.remove(first)
    assert await storage.delegated.of("a", "c") == [second]
    await storage.conversations.forget([("a", "c")])
    assert await storage.delegated.of("a", "c") == []
    assert len(await storage.delegated.of("a", "d")) == 1
