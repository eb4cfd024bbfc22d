"""The messages with which a forked conversation begins, and the view that comes with them."""

from pathlib import Path

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.protocol.context_changes import ContextFork
from fleetwright_agent.protocol.frames import TurnFailed, TurnRequest
from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.turn.compaction.view import CompactionState, View
from fleetwright_agent.turn.context_forks import ContextForks, forked, last_todos
from fleetwright_agent.turn.conversation_undo import tasks_since
from fleetwright_agent.turn.views import Views

CALL = {"id": "c", "name": "bash", "args": {}}
CALLING = AIMessage("", id="b1", tool_calls=[CALL])
RESULT = ToolMessage("ok", tool_call_id="c", id="b2")
HISTORY: list[AnyMessage] = [
    HumanMessage("A", id="t1"),
    AIMessage("a", id="a1"),
    HumanMessage("B", id="t2"),
    CALLING,
    RESULT,
    AIMessage("b", id="b3"),
    HumanMessage("C", id="t3"),
    AIMessage("c", id="c1"),
]


def names(messages: list[AnyMessage]) -> list[str]:
    return [str(message.id) for message in messages]


@pytest.mark.parametrize(
    ("messages", "task", "last"),
    [
        pytest.param(HISTORY, "t1", "a1", id="first task"),
        pytest.param(HISTORY, "t2", "b3", id="task with calls"),
        pytest.param(HISTORY, "t3", "c1", id="last task"),
        pytest.param(HISTORY, "", "c1", id="whole history"),
        pytest.param(HISTORY[:4], "", "a1", id="unanswered task is left out"),
        pytest.param(HISTORY[:7], "", "b3", id="unanswered message is left out"),
        pytest.param(HISTORY[:4], "t2", "b1", id="interrupted task"),
    ],
)
def test_fork_ends_with_its_task(messages: list[AnyMessage], task: str, last: str) -> None:
    kept = forked(messages, task)
    assert kept == messages[: len(kept)]
    assert kept[-1].id == last


@pytest.mark.parametrize(
    ("messages", "task"),
    [
        pytest.param([], "", id="empty"),
        pytest.param([], "t1", id="empty, with a task"),
        pytest.param(HISTORY, "t9", id="unknown task"),
        pytest.param(HISTORY, "a1", id="answer"),
        pytest.param(HISTORY[:1], "", id="no answer"),
        pytest.param([HumanMessage("", id="t1"), *HISTORY[2:]], "t1", id="task whose text was deleted"),
    ],
)
def test_fork_needs_its_task(messages: list[AnyMessage], task: str) -> None:
    with pytest.raises(TurnFailed) as failed:
        forked(messages, task)
    assert failed.value.refused


@pytest.mark.parametrize(
    ("task", "turns"), [("t1", ["t1", "t2", "t3"]), ("t3", ["t3"]), ("t9", []), ("a1", []), ("", [])]
)
def test_undo_covers_all_later_tasks(task: str, turns: list[str]) -> None:
    assert tasks_since(HISTORY, task) == turns


def test_failed_todos_are_not_taken() -> None:
    call = {"id": "c", "name": "todo_write", "args": {"todos": [{"bad": 1}]}}
    failed = ToolMessage("Error", tool_call_id="c", status="error")
    assert last_todos([AIMessage("", tool_calls=[call]), failed]) == []


class StoredHistory:
    """The stored state of one thread."""

    def __init__(self, thread: str, messages: list[AnyMessage]) -> None:
        self.thread = thread
        self.values = {"messages": messages, "prior_sessions": "earlier"}

    async def aget_state(self, place: dict[str, dict[str, str]]) -> "StoredHistory":
        return self if place["configurable"]["thread_id"] == self.thread else StoredHistory("", [])


@pytest.mark.parametrize(
    ("view", "task", "kept"),
    [
        pytest.param(View(cut="a1", newest="b3", summary="s"), "t2", True, id="made before the fork"),
        pytest.param(View(cut="a1", newest="c1", summary="s"), "t2", False, id="made after the fork"),
        pytest.param(View(cut="b3", newest="c1", summary="s"), "t1", False, id="cut after the fork"),
        pytest.param(View(newest="a1"), "t1", True, id="without a cut"),
    ],
)
async def test_fork_takes_only_a_view_of_its_own_history(tmp_path: Path, view: View, task: str, kept: bool) -> None:
    storage = sqlite_storage(tmp_path / "memory")
    try:
        source, views = conversation("o", "c"), Views(storage.views())
        await views.put(source, CompactionState(view), at=1.0)
        gone = HumanMessage("", id="a0")
        forks = ContextForks(StoredHistory(source, [gone, *HISTORY]), views, storage, clock=lambda: 2.0)
        request = TurnRequest("o", "d", "t", "x")
        begun = await forks.history(ContextFork("c", task), request, "fork", knows_sessions=True)
        assert begun["prior_sessions"] == "earlier"
        assert await storage.conversations.forks("o", "c") == ["d"]
        assert ("a0" in names(begun["messages"])) is kept
        assert (await views.get("fork")).view == (view if kept else None)
    finally:
        await storage.file.aclose()
