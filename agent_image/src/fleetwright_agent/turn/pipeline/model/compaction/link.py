"""Shows the model a view of the conversation that fits into its window, and compacts a conversation that is too large.

If the provider refuses the prompt for its size, a compaction is forced and the prompt is sent once more.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, cast

from fleetwright_a2a.lazy_import import import_in_thread
from fleetwright_agent.config.compaction import Compaction as Policy
from fleetwright_agent.config.compaction import CompactionMode
from fleetwright_agent.config.model import Model
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.compaction.policy import CompactionStep, decide, due, effective_room, may_act, room
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.context import TurnContext, TurnState
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.compaction.counts import CompactionMetrics
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls, ModelFailed, answer_of
from fleetwright_agent.turn.views import Views

if TYPE_CHECKING:
    from fleetwright_agent.turn.pipeline.model.compaction.steps import CompactionSteps

_STEPS: Final = "fleetwright_agent.turn.pipeline.model.compaction.steps"
_HALF: Final = 2


class CompactionLink:
    def __init__(
        self,
        policy: Policy,
        model: Model,
        metrics: Metrics,
        *,
        views: Views,
        calls: ModelCalls,
        read_skill: Callable[[str], str | None],
        reads_memory: Callable[[str], bool] = lambda _: True,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            read_skill: Returns the text of a skill, or None.
            reads_memory: Returns whether the role of an owner allows reading memory.
        """
        self._reads_memory = reads_memory
        self._policy = policy
        self._model = model
        self._views = views
        self._calls = calls
        self._read_skill = read_skill
        self._counts = CompactionMetrics(metrics)
        self._clock = clock
        self._monotonic = monotonic
        self._loaded: CompactionSteps | None = None
        views.watch(self._forget)

    @property
    def _window(self) -> int:
        """Maximum tokens of a prompt; it shrinks if a provider reports a smaller window on an overflow."""
        return room(self._model)

    @property
    def _room(self) -> int:
        return effective_room(self._policy, self._window)

    async def _steps(self) -> "CompactionSteps":
        """Return the steps of compaction. Most first turns need none, so the slow import waits until one is needed."""
        await import_in_thread(_STEPS)
        if self._loaded is None:
            from fleetwright_agent.turn.pipeline.model.compaction.steps import CompactionSteps

            self._loaded = CompactionSteps(
                self._policy,
                self._model,
                views=self._views,
                calls=self._calls,
                counts=self._counts,
                read_skill=self._read_skill,
                clock=self._clock,
                monotonic=self._monotonic,
            )
        return self._loaded

    def _forget(self) -> None:
        if self._loaded is not None:
            self._loaded.forget()

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
        reading = asyncio.create_task(self._read_ahead(context, prompt))
        try:
            yield
        finally:
            await reading

    async def _read_ahead(self, context: TurnContext, prompt: Prompt) -> None:
        await (await self._steps()).read_ahead(context, prompt)

    async def _open(self, context: TurnContext) -> None:
        """Load the compaction state of this conversation, and refresh its pins from their sources."""
        if context.standing is not None:
            return
        context.standing = await self._views.get(context.thread)
        if context.fresh:
            # The user has sent a new message, so allow one more attempt.
            context.standing = context.standing.with_attempt(most=self._policy.guard.max_failures)
        if context.standing.view is not None:
            await (await self._steps()).refresh_pins(context, context.standing, context.standing.view)

    def _prior_sessions(self, request: Request, context: TurnContext) -> str:
        # The task may be older than the role of its caller.
        allowed = self._reads_memory(context.request.owner)
        return cast("TurnState", request.state).get("prior_sessions", "") if allowed else ""

    def _prompt(self, request: Request, context: TurnContext) -> Prompt:
        return Prompt(
            stored=request.messages,
            view=context.compaction_state.view,
            prior_sessions=self._prior_sessions(request, context),
            system=request.system_prompt or "",
            tools=context.declarations,
        )

    async def _when_due(self, request: Request, context: TurnContext) -> Prompt:
        """Compact the conversation if that is due, and return the prompt to send."""
        prompt = self._prompt(request, context)
        tokens = prompt.tokens()
        self._counts.filled(tokens / self._window)
        messages = len(prompt.stored) - prompt.cut
        trigger = due(self._policy, tokens=tokens, messages=messages, room=self._room)
        cold = context.seconds_since_call(self._monotonic()) >= self._policy.prune.idle_after_seconds
        steps = state = None
        if may_act(self._policy, trigger=trigger, tokens=tokens, room=self._room, cold=cold):
            steps = await self._steps()
            state = steps.prompt_state(prompt, tokens, context, trigger=trigger, cold=cold)
        if context.calls_since_summary is not None:
            context.calls_since_summary += 1
        if steps is None or state is None:
            return prompt
        decision = decide(self._policy, state)
        if decision.step is CompactionStep.NOTHING:
            return prompt
        if self._policy.mode is CompactionMode.OBSERVE:
            if not context.observed:
                self._counts.observed(decision.trigger)
            context.observed = True
        elif decision.step is CompactionStep.PRUNE and state.batch is not None:
            await steps.prune(context, prompt, state.batch, decision.trigger)
        else:
            await steps.summarise(request, context, prompt, decision.trigger, tokens)
        return self._prompt(request, context)

    async def _after_overflow(self, request: Request, call: ModelCall, prompt: Prompt, refused: ModelFailed) -> Reply:
        context: TurnContext = request.runtime.context
        tokens = prompt.tokens()
        steps = await self._steps()
        made = await steps.summarise(request, context, prompt, "overflow", tokens, refused=tokens)
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


def _showing(request: Request, context: TurnContext, prompt: Prompt) -> Request:
    return request.override(messages=prompt.messages, tools=list(context.declarations))
