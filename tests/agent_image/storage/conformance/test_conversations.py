"""The contracts of checkpoints, views, whole conversations and the data of their owners."""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from tests.agent_image.storage.conformance.conftest import SettableClock

from fleetwright_agent.storage.conversations import PRIOR_SESSIONS, SideThread, conversation
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, PeerCall, QuestionKey
from fleetwright_agent.storage.sessions import Session
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tool_journal import CallState, StartedCall
from fleetwright_agent.storage.usage import NOBODY, ModelCallUsage, TaskUsageLine

MAIN, OTHER = conversation("a", "c"), conversation("a", "d")
TASK = SideThread("a", "c", "t")
MESSAGES: tuple[AnyMessage, ...] = (
    HumanMessage("hello", id="1"),
    AIMessage("hi", id="2"),
    HumanMessage("and now?", id="3"),
)


def place(thread: str, **more: str) -> Any:
    return {"configurable": {"thread_id": thread, "checkpoint_ns": "", **more}}


async def put(
    storage: Storage, thread: str, history: Sequence[AnyMessage], *, step: int = 1, saver: Any = None, **values: Any
) -> None:
    saver = saver or storage.checkpoints()
    checkpoint = {"v": 1, "id": f"{step:05}", "ts": "", "channel_values": {"messages": list(history), **values}}
    await saver.aput(place(thread), checkpoint, {"step": step}, {"messages": str(step)})
    await saver.settled(thread)


async def read(storage: Storage, thread: str) -> Any:
    return await storage.checkpoints().aget_tuple(place(thread))


async def test_saver_returns_the_newest_checkpoint(storage: Storage) -> None:
    saver = storage.checkpoints()
    await put(storage, MAIN, MESSAGES[:2], saver=saver, task="t")
    await put(storage, MAIN, MESSAGES, step=2, saver=saver, task="u")
    for each in (saver, storage.checkpoints()):
        found = await each.aget_tuple(place(MAIN))
        assert found is not None
        assert found.checkpoint["channel_values"] == {"messages": list(MESSAGES), "task": "u"}
        assert (found.checkpoint["id"], found.metadata["step"]) == ("00002", 2)
    assert await saver.holds(MAIN)
    assert not await saver.holds(OTHER)


async def test_saver_rewrites_a_history_that_differs(storage: Storage) -> None:
    await put(storage, MAIN, MESSAGES)
    changed = [HumanMessage("other", id="9"), *MESSAGES[1:]]
    await put(storage, MAIN, changed, step=2)
    assert (await read(storage, MAIN)).checkpoint["channel_values"]["messages"] == changed


async def test_saver_keeps_pending_writes_of_the_newest_step(storage: Storage) -> None:
    saver = storage.checkpoints()
    await put(storage, MAIN, MESSAGES[:1], saver=saver)
    await saver.aput_writes(place(MAIN, checkpoint_id="00001"), [("x", 1), ("y", 2)], "node")
    await saver.aput_writes(place(MAIN, checkpoint_id="00001"), [("x", 7)], "node")
    await saver.aput_writes(place(MAIN, checkpoint_id="00001"), [("__interrupt__", "first")], "node")
    await saver.aput_writes(place(MAIN, checkpoint_id="00001"), [("__interrupt__", "second")], "node")
    await saver.settled(MAIN)
    found = await read(storage, MAIN)
    assert found.pending_writes == [("node", "__interrupt__", "second"), ("node", "x", 1), ("node", "y", 2)]
    await put(storage, MAIN, MESSAGES[:2], step=2, saver=saver)
    assert (await read(storage, MAIN)).pending_writes == []


async def test_thread_is_copied_with_all_that_belongs_to_it(storage: Storage) -> None:
    await put(storage, MAIN, MESSAGES)
    await storage.journal.put(MAIN, "1", CallState.WAITING)
    await storage.views().put(MAIN, {"view": None, "failures": 3}, at=1.0, cut=None)
    await storage.grants.put("a", "c", "rope", ["short"])
    saver = storage.checkpoints()
    await saver.acopy_thread(MAIN, TASK.thread)
    await storage.journal.begin(TASK.thread, "1", StartedCall("rope", {}))
    assert (await read(storage, TASK.thread)).checkpoint["channel_values"]["messages"] == list(MESSAGES)
    entry = await storage.journal.get(MAIN, "1")
    assert entry is not None
    assert entry.state is CallState.WAITING
    assert await storage.conversations.count_failing_compactions(at_least=3) == 2
    assert len(await storage.grants.of("a")) == 1
    assert await storage.conversations.side_threads() == [TASK]
    await saver.adelete_aside(TASK)
    assert await storage.conversations.side_threads() == []
    assert await storage.journal.get(TASK.thread, "1") is None
    assert await saver.holds(MAIN)


async def test_last_uses_lists_conversations_oldest_first(storage: Storage, clock: SettableClock) -> None:
    await put(storage, OTHER, MESSAGES)
    clock.seconds += 1
    await put(storage, MAIN, MESSAGES)
    clock.seconds += 1
    await put(storage, conversation("b", "c"), MESSAGES)
    clock.seconds += 1
    await put(storage, TASK.delegated("x"), MESSAGES)
    uses = await storage.conversations.last_uses()
    assert [each.place for each in uses] == [("a", "d"), ("b", "c"), ("a", "c")]
    assert uses[-1].used == clock.now()
    assert [each.place for each in await storage.conversations.last_uses("a")] == [("a", "d"), ("a", "c")]


async def test_forget_deletes_conversations_with_their_parts(storage: Storage) -> None:
    forgotten: list[None] = []
    storage.views().watch(lambda: forgotten.append(None))
    for thread in (MAIN, TASK.thread, OTHER):
        await put(storage, thread, MESSAGES)
    await storage.conversations.forget([("a", "c")])
    assert [each.place for each in await storage.conversations.last_uses()] == [("a", "d")]
    assert await storage.conversations.side_threads() == []
    assert forgotten


async def test_forget_side_thread_keeps_the_conversation(storage: Storage) -> None:
    forgotten: list[None] = []
    storage.views().watch(lambda: forgotten.append(None))
    other = SideThread("a", "c", "other")
    for thread in (MAIN, TASK.thread, TASK.delegated("x"), other.thread):
        await put(storage, thread, MESSAGES)
        await storage.journal.put(thread, "1", CallState.WAITING)
        await storage.views().put(thread, {"view": None, "failures": 1}, at=1.0, cut=None)
    await storage.conversations.forget_side_thread(TASK)
    assert await storage.conversations.side_threads() == [other]
    assert forgotten
    for thread, kept in ((MAIN, True), (TASK.thread, False), (TASK.delegated("x"), False), (other.thread, True)):
        assert (await read(storage, thread) is not None) is kept
        assert (await storage.journal.get(thread, "1") is not None) is kept
        assert (await storage.views().get(thread) is not None) is kept


async def test_views_are_replaced(storage: Storage) -> None:
    views = storage.views()
    assert await views.get(MAIN) is None
    await views.put(MAIN, {"view": None, "failures": 1}, at=1.0, cut=None)
    await views.put(MAIN, {"view": None, "failures": 2}, at=1.0, cut=None)
    assert await views.get(MAIN) == {"view": None, "failures": 2}
    assert (await views.failing(at_least=2), await views.failing(at_least=3)) == (1, 0)


async def test_archived_returns_messages_before_a_cut(storage: Storage) -> None:
    await put(storage, MAIN, MESSAGES)
    views = storage.views()
    assert [each.id for each in await views.archived(MAIN, cut="1", pruned=["3"])] == ["1", "3"]
    assert [each.id for each in await views.archived(MAIN, cut="none", pruned=[])] == []


async def test_expire_archive_deletes_the_text_but_not_the_place(storage: Storage) -> None:
    await put(storage, MAIN, MESSAGES)
    await storage.views().put(MAIN, {"view": {"request": "1"}, "failures": 0}, at=10.0, cut="2")
    assert await storage.conversations.expire_archive(10.0) == 0
    assert await storage.conversations.oldest_archived() == 10.0
    assert await storage.conversations.expire_archive(11.0) == 1
    assert await storage.conversations.oldest_archived() is None
    assert await storage.conversations.expire_archive(11.0) == 0
    history = (await read(storage, MAIN)).checkpoint["channel_values"]["messages"]
    assert [(each.id, each.text) for each in history] == [("1", "hello"), ("2", ""), ("3", "and now?")]


async def test_transcript_holds_the_parts_of_a_conversation(storage: Storage) -> None:
    await put(storage, MAIN, MESSAGES[:1])
    await put(storage, TASK.thread, MESSAGES[1:2])
    await storage.views().put(MAIN, {"view": None, "failures": 0}, at=1.0, cut=None)
    assert await storage.conversations.transcript("a", "c") == [
        {
            "contextId": "c",
            "messages": [{"role": "human", "text": "hello"}],
            "view": {"view": None, "failures": 0},
        },
        {"contextId": "c", "taskId": "t", "messages": [{"role": "ai", "text": "hi"}]},
    ]


async def forget(storage: Storage, owner: str, context_id: str = "") -> None:
    await storage.conversations.forget([(owner, context_id)])


async def erase(storage: Storage, owner: str, context_id: str = "") -> None:
    await storage.owners.erase(ErasureTarget(owner, context_id), tasks=[])


@pytest.mark.parametrize(
    ("delete", "place", "left"),
    [
        pytest.param(forget, ("a", "other"), ["fork", "of fork"], id="nothing deleted"),
        pytest.param(forget, ("a", "source"), ["fork", "of fork"], id="source forgotten"),
        pytest.param(forget, ("a", "fork"), ["fork", "of fork"], id="fork forgotten"),
        pytest.param(erase, ("a", "of fork"), ["fork"], id="last fork erased"),
        pytest.param(erase, ("a", ""), [], id="owner erased"),
    ],
)
async def test_forks_are_known_until_they_are_erased(
    storage: Storage, delete: Any, place: tuple[str, str], left: list[str]
) -> None:
    await storage.conversations.fork("a", "fork", source="source")
    await storage.conversations.fork("a", "of fork", source="fork")
    await storage.conversations.fork("a", "of fork", source="fork")
    await storage.conversations.fork("b", "fork", source="source")
    await delete(storage, *place)
    assert await storage.conversations.forks("a", "source") == left
    assert await storage.conversations.forks("a", "of fork") == []
    assert await storage.conversations.forks("b", "source") == ["fork"]


@pytest.mark.parametrize(
    ("edges", "wanted"),
    [
        pytest.param("ab bc cd", ["b", "c", "d"], id="chain"),
        pytest.param("cd bc ab", ["b", "c", "d"], id="chain, last edge first"),
        pytest.param("ab ac ad", ["b", "c", "d"], id="many forks of one"),
        pytest.param("ab bd ac cd", ["b", "c", "d"], id="two sources"),
        pytest.param("ab bc ac ab", ["b", "c"], id="all sources of a fork"),
        pytest.param("ab bc ca", ["b", "c"], id="cycle"),
        pytest.param("bc ba", [], id="a fork itself"),
    ],
)
async def test_forks_include_forks_of_forks(storage: Storage, edges: str, wanted: list[str]) -> None:
    for source, fork in edges.split():
        await storage.conversations.fork("a", fork, source=source)
        await storage.conversations.fork("b", f"{fork} of b", source=source)
    assert await storage.conversations.forks("a", "a") == wanted


async def test_title_lives_as_long_as_its_conversation(storage: Storage) -> None:
    assert not await storage.conversations.rename("a", "c", "early")
    await put(storage, MAIN, MESSAGES)
    await put(storage, conversation("b", "c"), MESSAGES)
    for title in ("first", "second"):
        assert await storage.conversations.rename("a", "c", title)
    await storage.checkpoints().acopy_thread(MAIN, TASK.thread)
    assert await storage.conversations.titles("a", ["c", "d"]) == {"c": "second"}
    assert await storage.conversations.titles("b", ["c"]) == {}
    await storage.conversations.forget([("a", "c")])
    await put(storage, MAIN, MESSAGES)
    assert await storage.conversations.titles("a", ["c"]) == {}


async def filled(storage: Storage) -> None:
    """Store data of two conversations of one owner, and of another owner."""
    for owner, context in (("a", "c"), ("a", "d"), ("b", "c")):
        await put(storage, conversation(owner, context), MESSAGES, **{PRIOR_SESSIONS: "about another"})
        await storage.sessions.put(owner, context, lambda _, context=context: Session(context, [], 1.0), most=9)
        question = QuestionKey(owner, context, "n/cook")
        await storage.questions.put(OpenQuestion(question, "remote", f"t-{context}"))
        await storage.delegated.put(DelegatedTask(owner, context, "n/cook", "remote"))
        await storage.peer_calls.begin(PeerCall(f"{owner}{context}", owner, context, "t", "n/cook", "boil", 1.0))
        entry = ModelCallUsage("m", "turn", owner, 1, 1, usd=Decimal(1))
        await storage.usage.put(entry, TaskUsageLine(owner, f"t-{context}", {}))


@pytest.mark.parametrize(
    ("target", "counts", "left"),
    [
        pytest.param(
            ErasureTarget("a"),
            {"conversations": 2, "messages": 6, "sessions": 2, "delegations": 2, "costs": 1},
            [("b", "c")],
            id="all of an owner",
        ),
        pytest.param(
            ErasureTarget("a", "c"),
            {"conversations": 1, "messages": 3, "sessions": 1, "delegations": 1},
            [("a", "d"), ("b", "c")],
            id="one conversation",
        ),
    ],
)
async def test_owner_data_is_counted_and_erased(
    storage: Storage, target: ErasureTarget, counts: dict[str, int], left: list[tuple[str, str]]
) -> None:
    await filled(storage)
    assert await storage.owners.counted(target) == counts
    await storage.owners.erase(target, tasks=["t-c"] if target.context_id else ["t-c", "t-d"])
    assert sorted(each.place for each in await storage.conversations.last_uses()) == left
    assert {(each.place.owner, each.place.context_id) for each in await storage.questions.all()} == {*left}
    places = [("a", "c"), ("a", "d"), ("b", "c")]
    assert [place for place in places if await storage.delegated.of(*place)] == left
    assert [place for place in places if await storage.peer_calls.of(*place)] == left
    assert {(owner, f"{task[2:]}") for owner, task in await storage.inflight.tasks()} == {*left}
    assert [each.context_id for owner in "ab" for each in await storage.sessions.of(owner)] == [c for _, c in left]
    assert (await storage.usage.since(0)).calls == 3
    assert sum(each.sum.calls for each in await storage.usage.of(NOBODY)) == (0 if target.context_id else 2)
    for owner, context in left:
        values = (await read(storage, conversation(owner, context))).checkpoint["channel_values"]
        assert (PRIOR_SESSIONS in values) is (owner == "b")
