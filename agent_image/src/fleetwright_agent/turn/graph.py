"""A turn on LangGraph: builds the loop once, runs one message through it, and speaks frames.

A conversation is a thread of the saver, keyed by owner and context. The caller of `run` serialises turns of
one conversation; different conversations run side by side on the one graph.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.protocol.extensions import trace_of
from fleetwright_agent.protocol.frames import Ask, Done, Frame, PeerCost, ToolEnd, TurnFailed, TurnRequest, Usage
from fleetwright_agent.storage.sqlite.engine.database import MemoryUnusable
from fleetwright_agent.storage.sqlite.tool_journal import Begun
from fleetwright_agent.telemetry.tracing import here
from fleetwright_agent.tools.port import Tool
from fleetwright_agent.turn.approval_policy import is_remembered
from fleetwright_agent.turn.calls_made import made
from fleetwright_agent.turn.checkpoint_resume import Start, Threads, asked, is_answered
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.task_usage import Bills
from fleetwright_agent.turn.loop import build_loop
from fleetwright_agent.turn.memories import Memories
from fleetwright_agent.turn.pipeline.composite import ModelLink, ToolRunner
from fleetwright_agent.turn.providers.finish_reason import End, end_of
from fleetwright_agent.turn.providers.models import Chat
from fleetwright_agent.turn.rounds import STEPS_PER_CALL, tool_calls
from fleetwright_agent.turn.toolbox import Toolbox

_log = logging.getLogger(__name__)
_END = object()


class Closing(Protocol):
    async def aclose(self) -> None: ...


class GraphTurn:
    """Runs turns of one agent; the model, the links, the memories and the tools are handed in."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        chat: Chat,
        links: Sequence[ModelLink],
        runner: ToolRunner,
        memories: Memories,
        toolbox: Toolbox,
        unknown: Callable[[TurnRequest, Sequence[Begun]], Awaitable[None]],
        own_tools: Callable[[TurnContext], Sequence[Tool]] = lambda _: (),
        closing: Sequence[Closing] = (),
        over: Callable[[str, str], None] = lambda *_: None,
        learned: Callable[[TurnRequest], Awaitable[Sequence[Frame]]] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Args:
        unknown: Is told of calls that a process which died had begun.
        own_tools: Makes the tools that are of one turn alone.
        closing: What to close at the end, beside the tools.
        over: Is told of the owner and the task of every turn that has come to its end; one that waits for a person,
            or that another process goes on with, has not.
        learned: Tells at the end of a turn what it has taught.
        """
        self._limits = config.limits
        self._tells_sessions = config.memory.sessions.enabled
        self._sessions = memories.sessions
        self._bills = Bills(memories.spending)
        self._toolbox = toolbox
        self._own_tools = own_tools
        self._closing = tuple(closing)
        self._over = over
        self._learned = learned
        self._clock = clock
        self._graph = build_loop(chat, links=links, runner=runner, saver=memories.saver)
        self._threads = Threads(
            self._graph, memories.saver, memories.journal, unknown=unknown, delegates=bool(config.sub_agents)
        )

    async def run(self, request: TurnRequest) -> AsyncGenerator[Frame, None]:
        frames: asyncio.Queue[Any] = asyncio.Queue()
        work = asyncio.create_task(self._work(request, frames))
        work.add_done_callback(lambda _: frames.put_nowait(_END))
        try:
            for spent in await self._bills.begin(request):
                yield spent
            while (frame := await frames.get()) is not _END:
                await self._bills.note(request, frame)
                if isinstance(frame, ToolEnd) and frame.kept is not None:
                    await asyncio.wait([frame.kept])  # What comes after it is not told before it either.
                yield frame
            last = await work
            if self._learned and isinstance(last, Done):
                for frame in await self._learned(request):
                    yield frame
            self._bills.close(request)
            yield last
        except MemoryUnusable as error:
            _log.error("a conversation could not be read or stored: %s", error)
            raise TurnFailed("storage", "The agent's memory cannot be used right now; try again later.") from error
        finally:
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await self._tell_late(request, frames)
            left = work.cancelled() and request.left()
            if not left and (work.cancelled() or work.exception() or isinstance(work.result(), Done)):
                self.over(request.owner, request.task_id)

    def over(self, owner: str, task_id: str) -> None:
        self._over(owner, task_id)

    async def _tell_late(self, request: TurnRequest, frames: asyncio.Queue[Any]) -> None:
        """What was used up to the moment in which somebody stopped listening belongs on the bill."""
        while not frames.empty():
            frame = frames.get_nowait()
            if isinstance(frame, Usage | PeerCost):
                request.late(frame)
                with suppress(MemoryUnusable):
                    await self._bills.note(request, frame)

    async def _work(self, request: TurnRequest, frames: asyncio.Queue[Any]) -> Ask | Done:
        """To the end of the turn, or to where a person is needed."""
        thread, begin, stored = await self._threads.open(request)
        request.opened()
        try:
            values = stored.values if begin.ended else await self._invoke(request, frames, thread, begin, stored)
            if not is_answered(values):
                now = await self._threads.now(thread)
                if asks := asked(now):
                    return asks[0]
                values = now.values
            return await self._finish(request, thread, values["messages"])
        except Exception:
            # Not what is cancelled: it may go on after a restart, and where it does not, upkeep drops it.
            await self._threads.drop(request, thread)
            raise

    async def _invoke(
        self, request: TurnRequest, frames: asyncio.Queue[Any], thread: str, begin: Start, stored: StateSnapshot
    ) -> dict[str, Any]:
        """What the conversation holds then."""
        context = TurnContext(request, frames.put_nowait, {}, thread)
        found = await self._toolbox.equipment(request, beside=self._own_tools(context))
        context.tools, context.unreachable = found.tools, found.unreachable
        context.fresh, context.idle_seconds = begin.fresh, self._idle(stored)
        context.recall = self._toolbox.recall(thread)
        if not begin.fresh:
            context.tally.tool_calls = tool_calls(stored.values["messages"])
        entry = begin.entry
        if isinstance(entry, dict) and not stored.values and self._knows_sessions(request):
            prior = await self._sessions.prior(request.owner, request.context_id)
            entry = {**entry, "prior_sessions": prior}
        steps = STEPS_PER_CALL * (self._limits.most_model_calls + 5)
        place: RunnableConfig = {"configurable": {"thread_id": thread}, "recursion_limit": steps}
        # What a step has come to is written in its turn, and on disk before anybody outside learns of it: before a
        # tool is called, and before the end is told.
        values: dict[str, Any] | None = await self._graph.ainvoke(entry, place, context=context, durability="sync")
        return values or {}

    def _idle(self, stored: StateSnapshot) -> float:
        """Seconds since this conversation was stored last, which is when the model was last asked."""
        return self._clock() - datetime.fromisoformat(stored.created_at).timestamp() if stored.created_at else 0.0

    async def _finish(self, request: TurnRequest, thread: str, messages: Sequence[AnyMessage]) -> Done:
        answer = messages[-1].text
        if not answer.strip():
            raise TurnFailed("model_empty_answer", "The model gave an empty answer.")
        remembering = self._remember(request, messages) if self._knows_sessions(request) else None
        await self._threads.close(request, thread)
        if remembering is not None:
            # The answer is final after this row is committed. The row shares the commit of the thread's last step.
            await self._sessions.written(remembering)
        return Done(answer, cut=end_of(messages[-1].response_metadata) is End.LIMIT)

    def _knows_sessions(self, request: TurnRequest) -> bool:
        return self._tells_sessions and is_remembered(request)

    def _remember(self, request: TurnRequest, messages: Sequence[AnyMessage]) -> "asyncio.Future[None]":
        return self._sessions.put(
            request.owner,
            request.context_id,
            asked=request.text,
            answered=messages[-1].text,
            calls=made(messages),
            trace_id={**trace_of(request.metadata), **here()}.get("traceId", ""),
        )

    async def aclose(self) -> None:
        await self._toolbox.aclose()
        for part in self._closing:
            await part.aclose()
