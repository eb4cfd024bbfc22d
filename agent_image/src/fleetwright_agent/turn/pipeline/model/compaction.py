"""Shows the model a view of the conversation that fits into its window. Makes a new view when the old one is too large.

A new view is stored before it is sent, so a crash leaves either the old view or the new one. If the provider refuses
the prompt for its size, a compaction is forced and the prompt is sent once more. After a failed compaction, the view
stays and compaction pauses for some model calls. The pause survives a restart. After `maxFailures` consecutive
failures, compaction waits for the caller's next message.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final, cast

from langchain_core.messages import AIMessage

from fleetwright_agent.config.compaction import Compaction as Policy
from fleetwright_agent.config.compaction import CompactionMode
from fleetwright_agent.config.model import Model
from fleetwright_agent.protocol.frames import CompactionStart
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.compaction.compactor import CompactionResult, Compactor
from fleetwright_agent.turn.compaction.economics import rates
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCaches
from fleetwright_agent.turn.compaction.pairs import has_open_call
from fleetwright_agent.turn.compaction.pin_message import ReadSkill
from fleetwright_agent.turn.compaction.policy import (
    CompactionStep,
    PromptState,
    decide,
    due,
    effective_room,
    may_act,
    room,
)
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.compaction.pruning import PruneBatch, best_batch
from fleetwright_agent.turn.compaction.summariser import SummaryFailed
from fleetwright_agent.turn.compaction.view import CompactionState
from fleetwright_agent.turn.context import TurnContext, TurnState
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.compaction_counts import CompactionMetrics
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls, ModelFailed, answer_of
from fleetwright_agent.turn.pipeline.model.prompt_cache import cache_settings
from fleetwright_agent.turn.pipeline.model.summary_request import summary_request
from fleetwright_agent.turn.providers.factory import Chat
from fleetwright_agent.turn.views import Views

_LONGEST_PAUSE: Final = 4
"""The number of failures after which the pause no longer grows. The longest pause is 2**4 - 1 = 15 model calls."""
_NEARLY_FULL: Final = 0.95
"""Above this fraction of the window, a summary is made at any cost, because the provider may refuse the next prompt."""
_HALF: Final = 2
_AHEAD: Final = 20
"""The largest number of messages that are extracted during one model call."""
_log = logging.getLogger(__name__)


class CompactionLink:
    def __init__(
        self,
        policy: Policy,
        model: Model,
        metrics: Metrics,
        *,
        views: Views,
        calls: ModelCalls,
        read_skill: ReadSkill,
        reads_memory: Callable[[str], bool] = lambda _: True,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: `reads_memory` returns whether the role of an owner allows reading memory."""
        self._reads_memory = reads_memory
        self._policy = policy
        self._rates = rates(model.price)
        self._model = model
        self._maker = Compactor(policy, model, read_skill)
        self._views = views
        self._readings = ExtractionCaches()
        views.watch(self._readings.clear)
        self._calls = calls
        self._counts = CompactionMetrics(metrics)
        self._clock = clock
        self._monotonic = monotonic

    @property
    def _window(self) -> int:
        """Maximum tokens of a prompt; it shrinks if a provider reports a smaller window on an overflow."""
        return room(self._model)

    @property
    def _room(self) -> int:
        return effective_room(self._policy, self._window)

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        await self._open(context)
        prompt = await self._when_due(request, context)
        try:
            async with self._reading_ahead(context, prompt):
                reply = await call(_showing(request, context, prompt))
        except ModelFailed as refused:
            if not refused.failure.overflow or self._policy.mode is not CompactionMode.ENFORCE:
                raise
            reply = await self._after_overflow(request, call, prompt, refused)
        context.called = self._monotonic()
        self._counts.repeated(context, answer_of(reply), self._prompt(request, context))
        return reply

    @asynccontextmanager
    async def _reading_ahead(self, context: TurnContext, prompt: Prompt) -> AsyncIterator[None]:
        """Extract some messages while the model answers, if a summary will be due soon."""
        tokens, messages = _HALF * prompt.tokens(), _HALF * (len(prompt.stored) - prompt.cut)
        soon = due(self._policy, tokens=tokens, messages=messages, room=self._room)
        if self._policy.mode is not CompactionMode.ENFORCE or soon is None:
            yield
            return
        reading = self._readings.of(context.thread)
        read = asyncio.create_task(asyncio.to_thread(reading.read, prompt.stored, behind=prompt.cut, most=_AHEAD))
        try:
            yield
        finally:
            await read

    async def _open(self, context: TurnContext) -> None:
        """Load the compaction state of this conversation, and refresh its pins from their sources."""
        if context.standing is not None:
            return
        standing = await self._views.get(context.thread)
        if context.fresh and standing.failures >= self._policy.guard.max_failures:
            # The user has sent a new message, so allow one more attempt.
            standing = replace(standing, failures=self._policy.guard.max_failures - 1, retry_at=0)
        context.standing = standing
        if standing.view is not None:
            view, missing = self._maker.repinned(standing.view)
            if view != standing.view:
                self._counts.repinned(missing)
                await self._stand(context, replace(standing, view=view))

    def _prior_sessions(self, request: Request, context: TurnContext) -> str:
        # The task may be older than the role of its caller.
        allowed = self._reads_memory(context.request.owner)
        return cast("TurnState", request.state).get("prior_sessions", "") if allowed else ""

    def _prompt(self, request: Request, context: TurnContext) -> Prompt:
        return Prompt(
            stored=request.messages,
            view=_standing(context).view,
            prior_sessions=self._prior_sessions(request, context),
            system=request.system_prompt or "",
            tools=context.declarations,
        )

    async def _when_due(self, request: Request, context: TurnContext) -> Prompt:
        """Compact the conversation if that is due, and return the prompt to send."""
        prompt = self._prompt(request, context)
        tokens = prompt.tokens()
        self._counts.filled(tokens / self._window)
        situation = self._situation(prompt, tokens, context)
        if context.calls_since_summary is not None:
            context.calls_since_summary += 1
        if situation is None or (decision := decide(self._policy, situation)).step is CompactionStep.NOTHING:
            return prompt
        if self._policy.mode is CompactionMode.OBSERVE:
            if not context.observed:
                self._counts.observed(decision.trigger)
            context.observed = True
        elif decision.step is CompactionStep.PRUNE and situation.batch is not None:
            await self._prune(context, prompt, situation.batch, decision.trigger)
        else:
            await self._summarise(request, context, prompt, decision.trigger, tokens)
        return self._prompt(request, context)

    def _situation(self, prompt: Prompt, tokens: int, context: TurnContext) -> PromptState | None:
        """Return the inputs of the decision, or None if no compaction can be due."""
        standing, cold = _standing(context), self._cold(context)
        messages = len(prompt.stored) - prompt.cut
        trigger = due(self._policy, tokens=tokens, messages=messages, room=self._room)
        if not may_act(self._policy, trigger=trigger, tokens=tokens, room=self._room, cold=cold):
            return None
        until = self._maker.cut(prompt)
        leaving, size = prompt.leaving(until) if until is not None else ([], 0)
        before = len(prompt.head) + len(leaving) if leaving else 0
        return PromptState(
            tokens=tokens,
            room=self._room,
            messages=messages,
            leaving=size,
            batch=self._batch(prompt, before, thrifty=trigger is None and not cold),
            cold=cold,
            busy=has_open_call(prompt.stored),
            resting=_answers(prompt) < standing.retry_at or standing.failures >= self._policy.guard.max_failures,
            calls_since_summary=context.calls_since_summary,
            payback=self._maker.expected_payback(prompt, size, warm=not cold),
            nearly_full=tokens >= _NEARLY_FULL * self._window,
        )

    def _batch(self, prompt: Prompt, before: int, *, thrifty: bool) -> PruneBatch | None:
        pruned = prompt.view.pruned if prompt.view else {}
        return best_batch(
            prompt.messages, self._policy.prune, self._rates, before=before, pruned=pruned, thrifty=thrifty
        )

    def _cold(self, context: TurnContext) -> bool:
        idle = context.idle_seconds if context.called is None else self._monotonic() - context.called
        return idle >= self._policy.prune.idle_after_seconds

    async def _prune(self, context: TurnContext, prompt: Prompt, batch: PruneBatch, trigger: str) -> None:
        started = self._monotonic()
        made = self._maker.pruned(prompt, batch)
        await self._stand(context, replace(_standing(context), view=made.view))
        self._counts.made(context, made, prompt, trigger=trigger, seconds=self._monotonic() - started)

    async def _summarise(
        self,
        request: Request,
        context: TurnContext,
        prompt: Prompt,
        trigger: str,
        tokens: int,
        *,
        refused: int | None = None,
    ) -> CompactionResult | None:
        """Store a new view with a summary and return it, or return None if the old view stays."""
        started = self._monotonic()
        context.emit(CompactionStart(tokens))
        try:
            own, cold = cast("Chat", request.model), self._cold(context)
            chat = await self._calls.choice.beside(own, context, cold=cold)
            made = await self._maker.summarised(
                prompt,
                summary_request(self._calls, context),
                reading=self._readings.of(context.thread),
                chat=chat,
                own=own,
                settings=cache_settings(chat, context),
                cold=cold,
                refused=refused,
            )
        except SummaryFailed as failed:
            seconds = self._monotonic() - started
            self._counts.failed(context, failed.reason, tokens, trigger=trigger, seconds=seconds)
            await self._failed(context, prompt, failed.reason, tokens)
            return None
        recovered = bool(_standing(context).failures)
        await self._stand(context, CompactionState(made.view), archives=made.method != "prune")
        if recovered:
            self._counts.failing(await self._views.failing(at_least=self._policy.guard.max_failures))
        if made.method != "prune":
            context.calls_since_summary = 0
        self._counts.made(context, made, prompt, trigger=trigger, seconds=self._monotonic() - started)
        return made

    async def _failed(self, context: TurnContext, prompt: Prompt, reason: str, tokens: int) -> None:
        """Store the failure and when compaction is tried again, and log both."""
        standing, most = _standing(context), self._policy.guard.max_failures
        failures = standing.failures + 1
        pause = 2 ** min(failures, _LONGEST_PAUSE) - 1
        await self._stand(context, replace(standing, failures=failures, retry_at=_answers(prompt) + pause + 1))
        self._counts.failing(await self._views.failing(at_least=most))
        attempt = f"after {pause} further model call{'s' if pause > 1 else ''}"
        about = {
            "task": context.request.task_id,
            "reason": reason,
            "tokens": tokens,
            "failures": failures,
            "nextAttempt": attempt if failures < most else "at the caller's next message",
        }
        _log.warning("compaction failed", extra=about)

    async def _stand(self, context: TurnContext, standing: CompactionState, *, archives: bool = False) -> None:
        await self._views.put(context.thread, standing, at=self._clock(), archives=archives)
        context.standing = standing

    async def _after_overflow(self, request: Request, call: ModelCall, prompt: Prompt, refused: ModelFailed) -> Reply:
        context: TurnContext = request.runtime.context
        tokens = prompt.tokens()
        made = await self._summarise(request, context, prompt, "overflow", tokens, refused=tokens)
        if made is None:
            self._counts.recovered("failed")
            raise refused
        try:
            reply = await call(_showing(request, context, prompt.under(made.view)))
        except ModelFailed as again:
            self._counts.recovered("failed")
            raise refused from again
        self._counts.recovered("recovered")
        return reply


def _standing(context: TurnContext) -> CompactionState:
    return context.standing or CompactionState()


def _answers(prompt: Prompt) -> int:
    """Return the number of model answers in the conversation, which is the number of successful model calls."""
    return sum(isinstance(message, AIMessage) for message in prompt.stored)


def _showing(request: Request, context: TurnContext, prompt: Prompt) -> Request:
    return request.override(messages=prompt.messages, tools=list(context.declarations))
