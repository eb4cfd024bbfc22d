"""Where a turn starts: a new message, a reply to an ask, or what a dead process left.

The decision is pure and reads one stored state; `Threads` finds that state and moves it aside when the conversation
goes on without it. Refuses: going on where a tool call may or may not have happened.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import Command, Interrupt, StateSnapshot

from fleetwright_agent.protocol.frames import Ask, AskKind, TurnFailed, TurnRequest
from fleetwright_agent.storage.sqlite.conversations.checkpoints import ConversationSaver
from fleetwright_agent.storage.sqlite.conversations.threads import Aside, conversation
from fleetwright_agent.storage.sqlite.tool_journal import Begun, Journal
from fleetwright_agent.turn.images import said

_LOST: Final = TurnFailed("pause_lost", "What this task waited for is not known any more; send a new message.")


@dataclass(frozen=True, slots=True)
class Start:
    """How the graph is entered; nothing to enter where it had come to its end."""

    entry: dict[str, Any] | Command[Any] | None
    fresh: bool = False
    ended: bool = False


def start(request: TurnRequest, stored: StateSnapshot) -> Start:
    """Raises: TurnFailed."""
    ours = stored.values.get("task") == request.task_id
    if request.reply is not None:
        known = ours and any(ask.identity == request.reply.ask for ask in asked(stored))
        if known:
            return Start(Command(resume={request.reply.ask: request.reply.value}))
        if not (ours and request.restarted):
            raise _LOST
    if ours and request.restarted:
        # Not `next`: a step whose work is done and that is not yet closed has nobody next.
        return Start(None, ended=not stored.tasks)
    return Start({"messages": [said(request)], "task": request.task_id}, fresh=True)


def is_answered(values: Mapping[str, Any]) -> bool:
    """Whether a turn that has stopped surely waits for nobody: its last word is an answer."""
    messages = values.get("messages")
    return "__interrupt__" not in values and bool(messages) and _spoken(messages or ())


def asked(stored: StateSnapshot) -> list[Ask]:
    """Every ask of a state that has no answer yet, in the order in which the model made them."""
    return [_ask(found) for task in stored.tasks if task.result is None for found in task.interrupts]


def _ask(found: Interrupt) -> Ask:
    value = found.value
    return Ask(AskKind(value["kind"]), value["prompt"], value["payload"], found.id, value["tool"])


class Threads:
    """The thread of a task: its conversation's, or one of its own."""

    def __init__(
        self,
        graph: Any,
        saver: ConversationSaver,
        journal: Journal,
        *,
        unknown: Callable[[TurnRequest, Sequence[Begun]], Awaitable[None]],
        delegates: bool = False,
    ) -> None:
        """Args: `unknown` is told of the calls that a process which died had begun; `delegates` says whether turns have
        sub-agents.
        """
        self._graph = graph
        self._saver = saver
        self._journal = journal
        self._unknown = unknown
        self._delegates = delegates

    async def open(self, request: TurnRequest) -> tuple[str, Start, StateSnapshot]:
        """Raises: TurnFailed, where the turn must not go on."""
        aside, thread = _aside(request).thread, conversation(request.owner, request.context_id)
        is_aside, stored = await asyncio.gather(self._saver.holds(aside), self._state(thread))
        if is_aside:
            thread, stored = aside, await self._state(aside)
        begin = start(request, stored)
        if begin.fresh:
            await self._set_aside(request, stored, thread, unfinished=bool(asked(stored)))
            await self._keep_finished(stored, thread)
            self._journal.forget(thread)
        elif request.restarted and (calls := await self._journal.begun(thread, below=aside)):
            await self._unknown(request, calls)
            tools = ", ".join(call.tool for call in calls)
            raise TurnFailed(
                "restart_tool_unknown",
                f"The agent restarted while {tools} ran. Whether it took effect is not known, so it was not"
                " called again: look, then send the message again if it is needed.",
            )
        return thread, begin, stored

    async def close(self, request: TurnRequest, thread: str) -> None:
        """All of it is on disk then.

        What a task that was set aside has come to goes back into its conversation. Its own thread ends, and those of
        its sub-agents do.
        """
        main = conversation(request.owner, request.context_id)
        await self._saver.settled(thread)
        if thread != main:
            await self._bring_back(request, thread, main)
        if thread != main or self._delegates:
            await self._saver.adelete_aside(_aside(request))

    async def drop(self, request: TurnRequest, thread: str) -> None:
        """The task has failed: what it did apart from its conversation goes with it.

        What its sub-agents did stays until upkeep finds that it is over: a process that dies before the failure is
        stored must not begin them anew.
        """
        if thread != conversation(request.owner, request.context_id):
            await self._saver.adelete_aside(_aside(request))

    async def _bring_back(self, request: TurnRequest, thread: str, main: str) -> None:
        done, now = await self._state(thread), await self._state(main)
        known = {message.id for message in now.values.get("messages", ())}
        news = [message for message in done.values["messages"] if message.id not in known]
        if news and _spoken(news):
            # Whoever was in the middle of a turn when the process ended comes after this one.
            await self._set_aside(request, now, main, unfinished=bool(now.tasks))
            await self._graph.aupdate_state(_place(main), {"messages": news}, as_node="model")
            await self._saver.settled(main)

    async def now(self, thread: str) -> StateSnapshot:
        """What is on disk of it."""
        await self._saver.settled(thread)
        return await self._state(thread)

    async def _set_aside(self, request: TurnRequest, stored: StateSnapshot, thread: str, *, unfinished: bool) -> None:
        """Whoever has not come to an end in this conversation keeps their place."""
        other = stored.values.get("task")
        if unfinished and other and other != request.task_id:
            target = Aside(request.owner, request.context_id, other).thread
            await self._saver.acopy_thread(thread, target)

    async def _keep_finished(self, stored: StateSnapshot, thread: str) -> None:
        """What calls had come to beside one that was cut off: a new message would take its place in the graph."""
        done = [task.result["messages"] for task in stored.tasks if task.result and "messages" in task.result]
        if messages := [message for found in done for message in found]:
            await self._graph.aupdate_state(_place(thread), {"messages": messages}, as_node="tools")

    async def _state(self, thread: str) -> StateSnapshot:
        found: StateSnapshot = await self._graph.aget_state(_place(thread))
        return found


def _aside(request: TurnRequest) -> Aside:
    return Aside(request.owner, request.context_id, request.task_id)


def _place(thread: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread}}


def _spoken(messages: Sequence[AnyMessage]) -> bool:
    """A history must not end with calls that nobody answers for."""
    last = messages[-1]
    return isinstance(last, AIMessage) and not last.tool_calls
