"""A turn on LangGraph: builds the loop once, runs one message through it, and speaks frames.

A conversation is a thread of the saver, keyed by owner and context. The caller of `run` serialises turns of
one conversation; different conversations run side by side on the one graph.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

from langchain.agents import create_agent
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from fleetwright_agent.callers import CallerKind
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.extensions import leaves_no_memory
from fleetwright_agent.layout import Layout
from fleetwright_agent.memory.checkpoints import ConversationSaver
from fleetwright_agent.memory.database import MemoryUnusable
from fleetwright_agent.memory.journal import Journal
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.memory.spending import Spending
from fleetwright_agent.memory.views import Views
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.tools.mcp import McpConnection
from fleetwright_agent.tools.mcp_wire import McpUnreachable
from fleetwright_agent.tools.port import Tool, ToolError
from fleetwright_agent.tools.skills import skill_reader
from fleetwright_agent.turn.bills import Bills
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.compaction.recall import recall_tool
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.frames import Ask, Done, Frame, PeerCost, TurnFailed, TurnRequest, Usage
from fleetwright_agent.turn.middleware.auditing import Auditor
from fleetwright_agent.turn.middleware.compaction import CompactionLink
from fleetwright_agent.turn.middleware.composite import TurnMiddleware
from fleetwright_agent.turn.middleware.enforcement import Enforcement
from fleetwright_agent.turn.middleware.equipment import EquipmentLink
from fleetwright_agent.turn.middleware.model_calls import ModelCalls
from fleetwright_agent.turn.middleware.tool_calls import ToolCalls
from fleetwright_agent.turn.middleware.typed_result import TypedResultLink
from fleetwright_agent.turn.models import Chat
from fleetwright_agent.turn.people import with_people
from fleetwright_agent.turn.resumption import Start, Threads

_log = logging.getLogger(__name__)
_STEPS_PER_CALL = 2
_END = object()


class Closing(Protocol):
    async def aclose(self) -> None: ...


class GraphTurn:
    """Runs turns of one agent; the model, the saver and the tools are handed in, with what to close at the end."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        layout: Layout,
        chat: Chat,
        saver: ConversationSaver,
        journal: Journal,
        spending: Spending,
        sessions: Sessions,
        views: Views,
        tools: Sequence[Tool],
        servers: Sequence[McpConnection],
        metrics: Metrics,
        enforcement: Enforcement,
        auditor: Auditor,
        model_calls: ModelCalls,
        closing: Sequence[Closing] = (),
        over: Callable[[str, str], None] = lambda *_: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Args: `over` is told of the owner and the task of every turn that has come to its end; one that waits for a
        person, or that another process goes on with, has not.
        """
        self._config = config
        self._sessions = sessions
        self._bills = Bills(spending)
        self._tools = tuple(tools)
        self._servers = tuple(servers)
        self._closing = tuple(closing)
        self._over = over
        self._views = views
        self._clock = clock
        compaction = CompactionLink(
            config.compaction,
            config.model,
            metrics,
            views=views,
            calls=model_calls,
            read_skill=skill_reader(config.skills, layout),
        )
        links = (
            EquipmentLink(config, layout),
            compaction,
            TypedResultLink(config.results),
            model_calls,
        )
        runner = ToolCalls(config.limits, metrics, journal, enforcement=enforcement, auditor=auditor)
        self._enforcement = enforcement
        self._graph: Any = create_agent(
            chat,
            middleware=[TurnMiddleware(links, runner)],
            context_schema=TurnContext,
            checkpointer=saver,
        )
        self._threads = Threads(self._graph, saver, journal, unknown=auditor.unknown)

    async def run(self, request: TurnRequest) -> AsyncGenerator[Frame, None]:
        frames: asyncio.Queue[Any] = asyncio.Queue()
        work = asyncio.create_task(self._work(request, frames))
        work.add_done_callback(lambda _: frames.put_nowait(_END))
        try:
            for spent in await self._bills.begin(request):
                yield spent
            while (frame := await frames.get()) is not _END:
                await self._bills.note(request, frame)
                yield frame
            last = await work
            with suppress(MemoryUnusable):  # Upkeep forgets it, and what failed or was cancelled.
                await self._bills.close(request)
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
        try:
            if not begin.ended:
                await self._invoke(request, frames, thread, begin, stored)
            if asks := await self._threads.asked(thread):
                return asks[0]
            return await self._finish(request, thread)
        except Exception:
            # Not what is cancelled: it may go on after a restart, and where it does not, upkeep drops it.
            await self._threads.drop(request, thread)
            raise

    async def _invoke(
        self, request: TurnRequest, frames: asyncio.Queue[Any], thread: str, begin: Start, stored: StateSnapshot
    ) -> None:
        tools, unreachable = await self._equipment(request)
        context = TurnContext(request, frames.put_nowait, tools, thread, unreachable)
        context.fresh, context.idle_seconds = begin.fresh, self._idle(stored)
        if self._config.compaction.archive.recall_tool and not self._enforcement.denies(RECALL):
            context.recall = recall_tool(lambda: self._views.archived(thread))
        entry = begin.entry
        if isinstance(entry, dict) and not stored.values and _is_remembered(request):
            prior = await asyncio.to_thread(self._sessions.prior, request.owner, request.context_id)
            entry = {**entry, "prior_sessions": prior}
        steps = _STEPS_PER_CALL * (self._config.limits.max_tool_calls + 25)
        place: RunnableConfig = {"configurable": {"thread_id": thread}, "recursion_limit": steps}
        # What a step has come to is on disk before the next one begins: a call of a tool is known before it is made.
        await self._graph.ainvoke(entry, place, context=context, durability="sync")

    def _idle(self, stored: StateSnapshot) -> float:
        """Seconds since this conversation was stored last, which is when the model was last asked."""
        return self._clock() - datetime.fromisoformat(stored.created_at).timestamp() if stored.created_at else 0.0

    async def _finish(self, request: TurnRequest, thread: str) -> Done:
        stored = await self._graph.aget_state({"configurable": {"thread_id": thread}})
        answer: str = stored.values["messages"][-1].text
        if not answer.strip():
            raise TurnFailed("model_empty_answer", "The model gave an empty answer.")
        await self._threads.close(request, thread)
        if _is_remembered(request):
            await self._remember(request, answer)
        return Done(answer)

    async def _equipment(self, request: TurnRequest) -> tuple[dict[str, Tool], dict[str, str]]:
        """Every tool of this turn; a server that cannot be reached takes only its own tools away."""
        found = await asyncio.gather(*(server.tools() for server in self._servers), return_exceptions=True)
        tools = {tool.name: tool for tool in self._tools}
        unreachable: dict[str, str] = {}
        uncertain: set[str] = set()
        for server, listed in zip(self._servers, found, strict=True):
            if isinstance(listed, McpUnreachable | ToolError):
                unreachable[server.name] = str(listed)
                _log.warning("MCP server %s: %s", server.name, listed)
            elif isinstance(listed, Exception):
                unreachable[server.name] = "sent what is no list of tools"
                _log.warning("MCP server %s: its list of tools cannot be read", server.name, exc_info=listed)
            elif isinstance(listed, BaseException):
                raise listed
            else:
                tools |= {tool.name: tool for tool in listed}
                uncertain |= {tool.name for tool in listed if server.is_uncertain}
        offered = with_people(tools, self._config, request.owner, uncertain=uncertain)
        return {name: tool for name, tool in offered.items() if not self._enforcement.denies(name)}, unreachable

    async def _remember(self, request: TurnRequest, answer: str) -> None:
        try:
            await asyncio.to_thread(
                self._sessions.record, request.owner, request.context_id, asked=request.text, answered=answer
            )
        except OSError:
            # The conversation itself is stored; a lost summary of it must not take the answer away.
            _log.exception("the session could not be remembered")

    async def aclose(self) -> None:
        await asyncio.gather(*(server.aclose() for server in self._servers))
        for part in self._closing:
            await part.aclose()


def _is_remembered(request: TurnRequest) -> bool:
    """An agent speaks for all its callers: what it said for one must not be remembered when it asks for another."""
    return not request.owner.startswith(f"{CallerKind.AGENT}:") and not leaves_no_memory(request.metadata)
