"""Decides how a turn starts: with a new message, with a reply to a question, or where an earlier process stopped.

`start` is pure and reads one stored state. `TaskThreads` finds this state, and copies it to a separate thread if a
different task continues the conversation. A turn never resumes if the outcome of a tool call is unknown.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt, StateSnapshot

from fleetwright_agent.protocol.frames import InterruptKind, InterruptRequest, TurnFailed, TurnRequest
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.storage.conversations import SideThread, conversation
from fleetwright_agent.storage.tool_journal import StartedCall, ToolJournal
from fleetwright_agent.turn.images import user_message

_message_id: Final = attrgetter("id")
_LOST: Final = TurnFailed("pause_lost", "The question of this task is no longer stored; send a new message.")


@dataclass(frozen=True, slots=True)
class TurnStart:
    """The input of the graph. `ended` is True if the stored run is complete, so the graph must not run."""

    entry: dict[str, Any] | Command[Any] | None
    fresh: bool = False
    ended: bool = False


def start(request: TurnRequest, stored: StateSnapshot) -> TurnStart:
    """Return how the turn starts. Raises: TurnFailed, if the question of a reply is not stored."""
    ours = stored.values.get("task") == request.task_id
    if request.reply is not None:
        known = ours and any(ask.identity == request.reply.ask for ask in pending_requests(stored))
        if known:
            return TurnStart(Command(resume={request.reply.ask: request.reply.value}))
        if not (ours and request.restarted):
            raise _LOST
    if ours and request.restarted:
        # Do not test `next`: it is also empty after a step that has finished but is not committed yet.
        return TurnStart(None, ended=not stored.tasks)
    message = user_message(request)
    # The id of the task finds the message when the conversation is forked, or when changes of files are undone.
    if request.task_id not in map(_message_id, stored.values.get("messages", ())):
        message.id = request.task_id
    return TurnStart({"messages": [message], "task": request.task_id}, fresh=True)


def is_answered(values: Mapping[str, Any]) -> bool:
    """Return True if the conversation ends with an answer and nothing waits for a person."""
    messages = values.get("messages")
    return "__interrupt__" not in values and bool(messages) and ends_with_answer(messages or ())


def pending_requests(stored: StateSnapshot) -> list[InterruptRequest]:
    """Return the unanswered questions of a stored state, in the order in which the model asked them."""
    return [_ask(found) for task in stored.tasks if task.result is None for found in task.interrupts]


def _ask(found: Interrupt) -> InterruptRequest:
    value = found.value
    return InterruptRequest(
        InterruptKind(value["kind"]),
        value["prompt"],
        value["payload"],
        found.id,
        value["tool"],
        value.get("arguments"),
        value.get("callId", ""),
    )


class TaskThreads:
    """Chooses the thread of a task: the thread of its conversation, or a separate thread."""

    def __init__(
        self,
        graph: Any,
        saver: ConversationSaver,
        journal: ToolJournal,
        *,
        unknown: Callable[[TurnRequest, Sequence[StartedCall]], Awaitable[None]],
        delegates: bool = False,
    ) -> None:
        """Args:
        unknown: Receives the tool calls that an earlier process had started but not finished.
        delegates: True if turns may have sub-agents.
        """
        self._graph = graph
        self._saver = saver
        self._journal = journal
        self._unknown = unknown
        self._delegates = delegates

    async def open(self, request: TurnRequest) -> tuple[str, TurnStart, StateSnapshot]:
        """Return the thread of the turn, how the turn starts, and the stored state.

        Raises:
            TurnFailed: The turn must not continue.
        """
        aside, thread = _aside(request).thread, conversation(request.owner, request.context_id)
        is_aside, stored = await asyncio.gather(self._saver.holds(aside), self._state(thread))
        if is_aside:
            thread, stored = aside, await self._state(aside)
        begin = start(request, stored)
        if begin.fresh:
            await self._set_aside(request, stored, thread, unfinished=bool(pending_requests(stored)))
            await self._keep_finished(stored, thread)
            self._journal.forget(thread)
        elif request.restarted and (calls := await self._journal.begun(thread, below=aside)):
            await self._unknown(request, calls)
            tools = ", ".join(call.tool for call in calls)
            raise TurnFailed(
                "restart_tool_unknown",
                f"The agent restarted while {tools} ran. It is unknown whether it took effect, so it was not"
                " called again. Check, then send the message again if it is needed.",
            )
        return thread, begin, stored

    async def close(self, request: TurnRequest, thread: str) -> None:
        """End a finished task, after all of its state is on disk.

        The messages of a task with a separate thread are copied into the conversation. The separate thread and the
        threads of the task's sub-agents are deleted.
        """
        main = conversation(request.owner, request.context_id)
        await self._saver.settled(thread)
        if thread != main:
            await self._bring_back(request, thread, main)
        if thread != main or self._delegates:
            await self._saver.adelete_aside(_aside(request))

    async def drop(self, request: TurnRequest, thread: str) -> None:
        """Delete the separate thread of a failed task.

        The threads of its sub-agents stay until maintenance deletes them. Without them, the next process would start
        the sub-agents again if this process died before storing the failure.
        """
        if thread != conversation(request.owner, request.context_id):
            await self._saver.adelete_aside(_aside(request))

    async def _bring_back(self, request: TurnRequest, thread: str, main: str) -> None:
        done, now = await self._state(thread), await self._state(main)
        known = {message.id for message in now.values.get("messages", ())}
        news = [message for message in done.values["messages"] if message.id not in known]
        if news and ends_with_answer(news):
            # A turn that was interrupted in the main thread moves to a separate thread, and continues after this turn.
            await self._set_aside(request, now, main, unfinished=bool(now.tasks))
            await self._graph.aupdate_state(_place(main), {"messages": news}, as_node="model")
            await self._saver.settled(main)

    async def now(self, thread: str) -> StateSnapshot:
        """Return the stored state of the thread, after pending writes are on disk."""
        await self._saver.settled(thread)
        return await self._state(thread)

    async def _set_aside(self, request: TurnRequest, stored: StateSnapshot, thread: str, *, unfinished: bool) -> None:
        """Copy the state of another, unfinished task to a separate thread, so that the task can resume there."""
        other = stored.values.get("task")
        if unfinished and other and other != request.task_id:
            target = SideThread(request.owner, request.context_id, other).thread
            await self._saver.acopy_thread(thread, target)

    async def _keep_finished(self, stored: StateSnapshot, thread: str) -> None:
        """Store the results of calls that finished in an interrupted step. A new message would discard them."""
        done = [task.result["messages"] for task in stored.tasks if task.result and "messages" in task.result]
        if messages := [message for found in done for message in found]:
            await self._graph.aupdate_state(_place(thread), {"messages": messages}, as_node="tools")

    async def _state(self, thread: str) -> StateSnapshot:
        found: StateSnapshot = await self._graph.aget_state(_place(thread))
        return found


def _aside(request: TurnRequest) -> SideThread:
    return SideThread(request.owner, request.context_id, request.task_id)


def _place(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def ends_with_answer(messages: Sequence[AnyMessage]) -> bool:
    """Return True if the messages end with an answer. A history must not end with unanswered tool calls."""
    last = messages[-1]
    return isinstance(last, AIMessage) and not last.tool_calls
