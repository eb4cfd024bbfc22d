"""A turn on LangGraph: compiles the loop once, runs one message through the loop, and emits frames.

A conversation is a thread of the checkpointer, with a key of owner and context. The caller of `run` serialises the
turns of one conversation. Turns of different conversations run concurrently on the same graph.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final, Protocol

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.types import StateSnapshot

from fleetwright_a2a.extensions import trace_of
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.memory.eligibility import MemoryAccess
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.protocol.context_changes import fork_of, title_of, undo_of
from fleetwright_agent.protocol.frames import (
    CutReason,
    Frame,
    InterruptRequest,
    PeerCost,
    TurnDone,
    TurnFailed,
    TurnRequest,
    Usage,
)
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.storage.conversations import PRIOR_SESSIONS
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.open_questions import DelegatedTask
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tool_journal import StartedCall
from fleetwright_agent.telemetry.tracing import current_trace
from fleetwright_agent.tools.port import TurnUsage
from fleetwright_agent.tools.registry import ToolRegistry
from fleetwright_agent.turn.background_results import (
    BackgroundTasksPort,
    delivered,
    result_frames,
    result_messages,
    undelivered,
)
from fleetwright_agent.turn.checkpoint_resume import TaskThreads, TurnStart, is_answered, pending_requests
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.context_forks import ContextForks
from fleetwright_agent.turn.conversation_undo import ConversationUndo, stored_report
from fleetwright_agent.turn.cost.task_usage import TaskUsage
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.loop import build_loop
from fleetwright_agent.turn.pipeline.composite import ModelLink, ToolRunner
from fleetwright_agent.turn.providers.factory import Chat
from fleetwright_agent.turn.providers.finish_reason import FinishReason, end_of
from fleetwright_agent.turn.rounds import STEPS_PER_CALL, calls_made, tool_calls
from fleetwright_agent.turn.views import Views

_log = logging.getLogger(__name__)
_END = object()
_CUTS: Final = {
    FinishReason.LIMIT: CutReason.OUTPUT_LIMIT,
    FinishReason.WINDOW: CutReason.OUTPUT_LIMIT,
    FinishReason.FILTER: CutReason.CONTENT_FILTER,
}
NO_HOOKS = TurnHooks()


class AsyncCloseable(Protocol):
    async def aclose(self) -> None: ...


class EditCheck(Protocol):
    async def __call__(
        self, tool: str, arguments: Mapping[str, Any], context: TurnContext, *, untyped: bool = False
    ) -> str | None: ...


class GraphTurn:
    """Runs the turns of one agent."""

    def __init__(
        self,
        config: AgentConfig,
        *,
        chat: Chat,
        links: Sequence[ModelLink],
        runner: ToolRunner,
        storage: Storage,
        saver: ConversationSaver,
        sessions: Sessions,
        registry: ToolRegistry,
        grants: Grants,
        unknown: Callable[[TurnRequest, Sequence[StartedCall]], Awaitable[None]],
        closing: Sequence[AsyncCloseable] = (),
        over: Callable[[str, str], None] = lambda *_: None,
        learned: Callable[[TurnRequest], Awaitable[Sequence[Frame]]] | None = None,
        edits: EditCheck | None = None,
        background: BackgroundTasksPort | None = None,
        views: Views | None = None,
        undo: Callable[[Any], ConversationUndo] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Args:
        unknown: Receives the tool calls that an earlier process had started but not finished.
        closing: Further objects to close at the end, after the tools.
        over: Receives the owner and task of each turn that has ended. A turn that waits for a person, or that another
            process will resume, has not ended.
        learned: Called at the end of a turn. Returns frames with the skills that the turn learned.
        background: The tasks of other agents that no call waits for, if there can be any.
        views: The views of conversations. Without them, callers cannot fork conversations.
        undo: Builds the undo of file changes for the graph of the turn, if the agent has a workspace.
        edits: Returns why a tool may not run with the arguments of a person, or None if it may.
        """
        self._limits = config.limits
        self._tells_sessions = config.memory.sessions.enabled
        self._access = MemoryAccess(config.actions_of)
        self._sessions = sessions
        self._usage = TaskUsage(storage.inflight)
        self.registry = registry
        self._grants = grants
        self._closing = tuple(closing)
        self._over = over
        self._learned = learned
        self._edits = edits
        self._background = background
        self._clock = clock
        self._graph = build_loop(chat, links=links, runner=runner, saver=saver)
        self._forks = ContextForks(self._graph, views, storage, clock=clock) if views is not None else None
        self._conversations = storage.conversations
        self._undo = undo(self._graph) if undo is not None else None
        self._threads = TaskThreads(
            self._graph, saver, storage.journal, unknown=unknown, delegates=bool(config.sub_agents)
        )

    async def run(self, request: TurnRequest, hooks: TurnHooks = NO_HOOKS) -> AsyncGenerator[Frame, None]:
        frames: asyncio.Queue[Any] = asyncio.Queue()
        work = asyncio.create_task(self._work(request, frames, hooks))
        work.add_done_callback(lambda _: frames.put_nowait(_END))
        try:
            for spent in await self._usage.begin(request):
                yield spent
            while (frame := await frames.get()) is not _END:
                if isinstance(frame, asyncio.Future):
                    await asyncio.wait([frame])  # Later frames wait too, which keeps the order.
                    continue
                await self._usage.note(request, frame)
                yield frame
            last = await work
            if self._learned and isinstance(last, TurnDone):
                for frame in await self._learned(request):
                    yield frame
            self._usage.close(request)
            yield last
        except MemoryUnusable as error:
            _log.error("a conversation could not be read or stored: %s", error)
            raise TurnFailed("storage", "The agent's memory cannot be used right now; try again later.") from error
        finally:
            if not work.done():
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                await self._tell_late(request, frames, hooks)
            left = work.cancelled() and hooks.left()
            if not left and (work.cancelled() or work.exception() or isinstance(work.result(), TurnDone)):
                self.over(request.owner, request.task_id)

    def over(self, owner: str, task_id: str) -> None:
        self._over(owner, task_id)

    async def edit_problem(
        self, request: TurnRequest, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        context = TurnContext(request, lambda _: None, {})
        context.tools = await self.registry.tools(context)
        if self._edits is None or tool not in context.tools:
            return f"the tool {tool} cannot be reached right now"
        return await self._edits(tool, arguments, context, untyped=untyped)

    async def _tell_late(self, request: TurnRequest, frames: asyncio.Queue[Any], hooks: TurnHooks) -> None:
        """Report and store the usage that was emitted before the consumer stopped reading frames."""
        while not frames.empty():
            frame = frames.get_nowait()
            if isinstance(frame, Usage | PeerCost):
                hooks.late(frame)
                with suppress(MemoryUnusable):
                    await self._usage.note(request, frame)

    async def _work(
        self, request: TurnRequest, frames: asyncio.Queue[Any], hooks: TurnHooks
    ) -> InterruptRequest | TurnDone:
        """Run the turn until there is an answer, or a person must answer a question."""
        if self._forks is not None and (title := title_of(request.metadata)) is not None:
            hooks.opened()
            return await self._rename(request, title)
        thread, begin, stored = await self._threads.open(request)
        if request.reply is not None:
            await self._grants.accept(request, pending_requests(stored))
        hooks.opened()
        try:
            undone = undo_of(request.metadata) if self._undo is not None and begin.fresh else None
            if self._undo is not None and undone is not None:
                values = {"messages": await self._undo.run(request, thread, stored.values.get("messages", ()), undone)}
            else:
                values = stored.values if begin.ended else await self._invoke(request, frames, thread, begin, stored)
            if not is_answered(values):
                now = await self._threads.now(thread)
                if asks := pending_requests(now):
                    return asks[0]
                values = now.values
            if report := stored_report(values["messages"][-1]):
                frames.put_nowait(report)
            return await self._finish(request, thread, values["messages"])
        except Exception:
            # The thread of a cancelled turn stays, because the turn may resume after a restart. If it does not,
            # maintenance deletes the thread.
            await self._threads.drop(request, thread)
            raise

    async def _rename(self, request: TurnRequest, title: str) -> TurnDone:
        """Name the conversation. The message and the answer do not become part of it, and no model is called."""
        if not await self._conversations.rename(request.owner, request.context_id, title):
            sentence = "The conversation cannot be renamed: this agent has none with this id for this caller."
            raise TurnFailed("title_unknown", sentence, refused=True)
        return TurnDone(f"The conversation has the title {title}")

    async def _invoke(
        self, request: TurnRequest, frames: asyncio.Queue[Any], thread: str, begin: TurnStart, stored: StateSnapshot
    ) -> dict[str, Any]:
        """Return the state of the conversation after the run."""
        usage = TurnUsage(tokens=await self._usage.tokens_of(request))
        emit = _count_tokens(usage, frames.put_nowait)
        context = TurnContext(request, emit, {}, thread, hold=frames.put_nowait, usage=usage)
        context.tools = await self.registry.tools(context)
        context.fresh, context.idle_seconds = begin.fresh, self._idle(stored)
        if not begin.fresh:
            context.usage.tool_calls = tool_calls(stored.values["messages"])
        entry = begin.entry
        if isinstance(entry, dict):
            entry = {**entry, **await self._prior_sessions(request, stored)}
        if isinstance(entry, dict) and begin.fresh and self._forks and (fork := fork_of(request.metadata)):
            if stored.values:
                sentence = "A fork begins a new conversation, and this one has begun; leave message.contextId out."
                raise TurnFailed("fork_refused", sentence, refused=True)
            knows = self._knows_sessions(request)
            history = await self._forks.history(fork, request, thread, knows_sessions=knows)
            entry = {**entry, **history, "messages": [*history["messages"], *entry["messages"]]}
        received: list[DelegatedTask] = []
        if isinstance(entry, dict) and begin.fresh and self._background is not None:
            results = await self._background.finished(request)
            received = [result.task for result in results]
            news = undelivered(results, stored.values.get("messages", ()))
            entry = {**entry, "messages": [*entry["messages"], *result_messages(news)]}
            for frame in result_frames(news):
                frames.put_nowait(frame)
        elif not begin.fresh and self._background is not None:
            # The process that began this turn may have ended before it recorded what it delivered.
            received = delivered(await self._background.undelivered(request), stored.values.get("messages", ()))
        steps = STEPS_PER_CALL * (self._limits.most_model_calls + 5)
        place: RunnableConfig = {"configurable": {"thread_id": thread}, "recursion_limit": steps}
        # "sync": each step is on disk before its effects are visible outside: before a tool is called, and before the
        # end of the turn is reported.
        values: dict[str, Any] | None = await self._graph.ainvoke(entry, place, context=context, durability="sync")
        if received and self._background is not None:
            # The conversation with the results is on disk. If this process dies before the removal, the next turn
            # finds the results in the conversation and does not add them again.
            await self._background.delivered(received)
        return values or {}

    async def _prior_sessions(self, request: TurnRequest, stored: StateSnapshot) -> dict[str, str]:
        """Return the text about other sessions, if the state has to change."""
        if not stored.values and self._knows_sessions(request):
            return {PRIOR_SESSIONS: await self._sessions.prior(request.owner, request.context_id)}
        # The conversation may be older than the role of its caller.
        is_revoked = stored.values.get(PRIOR_SESSIONS) and not self._access.allows_reading(request.owner)
        return {PRIOR_SESSIONS: ""} if is_revoked else {}

    def _knows_sessions(self, request: TurnRequest) -> bool:
        return self._tells_sessions and self._access.may_read(request)

    def _idle(self, stored: StateSnapshot) -> float:
        """Return the seconds since the conversation was last stored, which is also when the model was last called."""
        return self._clock() - datetime.fromisoformat(stored.created_at).timestamp() if stored.created_at else 0.0

    async def _finish(self, request: TurnRequest, thread: str, messages: Sequence[AnyMessage]) -> TurnDone:
        answer = messages[-1].text
        if not answer.strip():
            raise TurnFailed("model_empty_answer", "The model gave an empty answer.")
        writes = self._tells_sessions and self._access.may_write(request)
        remembering = self._remember(request, messages) if writes else None
        await self._threads.close(request, thread)
        if remembering is not None:
            # The answer is final once this row is committed. The last step of the thread is in the same commit.
            await self._sessions.written(remembering)
        return TurnDone(answer, cut=_CUTS.get(end_of(messages[-1].response_metadata)))

    def _remember(self, request: TurnRequest, messages: Sequence[AnyMessage]) -> "asyncio.Future[None]":
        return self._sessions.put(
            request.owner,
            request.context_id,
            asked=request.text,
            answered=messages[-1].text,
            calls=calls_made(messages),
            trace_id={**trace_of(request.metadata), **current_trace()}.get("traceId", ""),
        )

    async def aclose(self) -> None:
        await self.registry.close()
        for part in self._closing:
            await part.aclose()


def _count_tokens(usage: TurnUsage, emit: Callable[[Frame], None]) -> Callable[[Frame], None]:
    """Return a callback that counts the tokens of model calls, and passes every frame on."""

    def told(frame: Frame) -> None:
        if isinstance(frame, Usage):
            usage.tokens += frame.tokens
        emit(frame)

    return told
