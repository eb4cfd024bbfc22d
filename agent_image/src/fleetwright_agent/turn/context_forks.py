"""Begins a conversation with the history of another one of the same caller, up to the end of one of its tasks."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from fleetwright_agent.config.workspace import WorkspaceTool
from fleetwright_agent.protocol.context_changes import ContextFork
from fleetwright_agent.protocol.frames import TurnFailed, TurnRequest
from fleetwright_agent.storage.conversations import PRIOR_SESSIONS, conversation
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.workspace import Todo
from fleetwright_agent.turn.checkpoint_resume import ends_with_answer
from fleetwright_agent.turn.compaction.view import CompactionState, View, position
from fleetwright_agent.turn.views import Views

_UNKNOWN: Final = "the conversation to fork is not known to this agent, or belongs to another caller"


class ContextForks:
    def __init__(self, graph: Any, views: Views, storage: Storage, *, clock: Callable[[], float]) -> None:
        self._graph = graph
        self._views = views
        self._store = storage.workspace
        self._conversations = storage.conversations
        self._clock = clock

    async def history(
        self, fork: ContextFork, request: TurnRequest, thread: str, *, knows_sessions: bool
    ) -> dict[str, Any]:
        """Return the values with which the conversation begins. Grants and read files are not part of them.

        Args: `knows_sessions` is whether the request may read what the source received about other conversations.

        Raises:
            TurnFailed: The source, or its task, is not known.
        """
        source = conversation(request.owner, fork.context_id)
        place: RunnableConfig = {"configurable": {"thread_id": source}}
        values = (await self._graph.aget_state(place)).values
        messages = forked(values.get("messages", ()), fork.task_id)
        # Record the fork before anything is copied, so that an erasure of the source finds every copy.
        await self._conversations.fork(request.owner, request.context_id, source=fork.context_id)
        view = (await self._views.get(source)).view
        if view is not None and _covers(messages, view):
            await self._views.put(thread, CompactionState(replace(view)), at=self._clock(), archives=bool(view.cut))
        else:
            # Without the view, the place of a message whose text was deleted has no meaning.
            messages = [message for message in messages if message.content or not isinstance(message, HumanMessage)]
        if todos := last_todos(messages):
            await self._store.put_todos(request.owner, request.context_id, todos)
        prior = values.get(PRIOR_SESSIONS, "") if knows_sessions else ""
        return {"messages": messages, **({PRIOR_SESSIONS: prior} if prior else {})}


def forked(messages: Sequence[AnyMessage], task_id: str) -> list[AnyMessage]:
    """Return the messages up to the end of the task; without one, up to the last answer.

    Raises:
        TurnFailed: There are no such messages.
    """
    starts = [n for n, each in enumerate(messages) if isinstance(each, HumanMessage) and each.content]
    if not starts:
        raise TurnFailed("fork_unknown", f"The conversation cannot be forked: {_UNKNOWN}.", refused=True)
    if not task_id:
        kept = list(messages if ends_with_answer(messages) else messages[: starts[-1]])
    else:
        found = next((n for n, start in enumerate(starts) if messages[start].id == task_id), None)
        if found is None:
            sentence = "The conversation cannot be forked there: its history has no such task."
            raise TurnFailed("fork_unknown", sentence, refused=True)
        kept = list(messages[: starts[found + 1] if found + 1 < len(starts) else len(messages)])
    if not kept:
        raise TurnFailed("fork_unknown", "The conversation cannot be forked: it has no answer yet.", refused=True)
    return kept


def last_todos(messages: Sequence[AnyMessage]) -> list[Todo]:
    """Return the todos that the agent has written last in these messages."""
    done = {each.tool_call_id for each in messages if isinstance(each, ToolMessage) and each.status == "success"}
    for message in reversed(messages):
        calls = message.tool_calls if isinstance(message, AIMessage) else []
        for call in reversed(calls):
            if call["name"] == WorkspaceTool.TODO_WRITE and call["id"] in done:
                return [Todo(**todo) for todo in call["args"]["todos"]]
    return []


def _covers(messages: Sequence[AnyMessage], view: View) -> bool:
    """Return True if the view was made from these messages only."""
    return position(messages, view.newest) > 0 and (not view.cut or position(messages, view.cut) > 0)
