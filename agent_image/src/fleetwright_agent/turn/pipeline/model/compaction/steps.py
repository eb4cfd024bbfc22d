"""The steps of compaction: shortening results and summarising. Importing this module is slow, and few turns need it.

A new view is stored before it is sent, so a crash leaves either the old view or the new one. After a failed compaction,
the view stays and compaction pauses for some model calls. The pause survives a restart. After `maxFailures` consecutive
failures, compaction waits for the caller's next message.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, cast

from langchain_core.messages import AIMessage

from fleetwright_agent.config.compaction import Compaction as Policy
from fleetwright_agent.config.model import Model
from fleetwright_agent.protocol.frames import CompactionStart
from fleetwright_agent.turn.compaction.compactor import CompactionResult, Compactor
from fleetwright_agent.turn.compaction.economics import rates
from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCaches
from fleetwright_agent.turn.compaction.pairs import has_open_call
from fleetwright_agent.turn.compaction.policy import PromptState, effective_room, room
from fleetwright_agent.turn.compaction.prompt import Prompt
from fleetwright_agent.turn.compaction.pruning import PruneBatch, best_batch
from fleetwright_agent.turn.compaction.summariser import SummaryFailed
from fleetwright_agent.turn.compaction.view import CompactionState, View
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.pipeline.composite import Request
from fleetwright_agent.turn.pipeline.model.compaction.counts import CompactionMetrics
from fleetwright_agent.turn.pipeline.model.compaction.summary_request import summary_request
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls
from fleetwright_agent.turn.pipeline.model.prompt_cache import cache_settings
from fleetwright_agent.turn.providers.factory import Chat
from fleetwright_agent.turn.views import Views

_LONGEST_PAUSE: Final = 4
"""The number of failures after which the pause no longer grows. The longest pause is 2**4 - 1 = 15 model calls."""
_NEARLY_FULL: Final = 0.95
"""Above this fraction of the window, a summary is made at any cost, because the provider may refuse the next prompt."""
_AHEAD: Final = 20
"""The largest number of messages that are extracted during one model call."""
_log = logging.getLogger(__name__)


class CompactionSteps:
    def __init__(
        self,
        policy: Policy,
        model: Model,
        *,
        views: Views,
        calls: ModelCalls,
        counts: CompactionMetrics,
        read_skill: Callable[[str], str | None],
        clock: Callable[[], float],
        monotonic: Callable[[], float],
    ) -> None:
        """Args: `read_skill` returns the text of a skill, or None."""
        self._policy = policy
        self._rates = rates(model.price)
        self._model = model
        self._maker = Compactor(policy, model, read_skill)
        self._views = views
        self._readings = ExtractionCaches()
        self._calls = calls
        self._counts = counts
        self._clock = clock
        self._monotonic = monotonic

    def forget(self) -> None:
        """Clear the cache of extracted messages, because stored messages were deleted or changed."""
        self._readings.clear()

    async def read_ahead(self, context: TurnContext, prompt: Prompt) -> None:
        """Extract some messages in a thread, for the next summary."""
        reading = self._readings.of(context.thread)
        await asyncio.to_thread(reading.read, prompt.stored, behind=prompt.cut, most=_AHEAD)

    async def refresh_pins(self, context: TurnContext, standing: CompactionState, view: View) -> None:
        """Store the view anew if the sources of its pins have changed."""
        refreshed, missing = self._maker.repinned(view)
        if refreshed != view:
            self._counts.repinned(missing)
            await self._stand(context, replace(standing, view=refreshed))

    def prompt_state(
        self, prompt: Prompt, tokens: int, context: TurnContext, *, trigger: str | None, cold: bool
    ) -> PromptState:
        """Return the inputs of the decision.

        Args:
            tokens: The size of the prompt.
            trigger: The reason for which a compaction is due; None if only the cold cache allows one.
            cold: True if the provider no longer caches the prompt.
        """
        window, standing = room(self._model), context.compaction_state
        until = self._maker.cut(prompt)
        leaving, size = prompt.leaving(until) if until is not None else ([], 0)
        before = len(prompt.head) + len(leaving) if leaving else 0
        return PromptState(
            tokens=tokens,
            room=effective_room(self._policy, window),
            messages=len(prompt.stored) - prompt.cut,
            leaving=size,
            batch=self._batch(prompt, before, thrifty=trigger is None and not cold),
            cold=cold,
            busy=has_open_call(prompt.stored),
            resting=_answers(prompt) < standing.retry_at or standing.failures >= self._policy.guard.max_failures,
            calls_since_summary=context.calls_since_summary,
            payback=self._maker.expected_payback(prompt, size, warm=not cold),
            nearly_full=tokens >= _NEARLY_FULL * window,
        )

    def _batch(self, prompt: Prompt, before: int, *, thrifty: bool) -> PruneBatch | None:
        pruned = prompt.view.pruned if prompt.view else {}
        return best_batch(
            prompt.messages, self._policy.prune, self._rates, before=before, pruned=pruned, thrifty=thrifty
        )

    async def prune(self, context: TurnContext, prompt: Prompt, batch: PruneBatch, trigger: str) -> None:
        """Store a new view that shows the results of the batch shortened."""
        started = self._monotonic()
        made = self._maker.pruned(prompt, batch)
        await self._stand(context, replace(context.compaction_state, view=made.view))
        self._counts.made(context, made, prompt, trigger=trigger, seconds=self._monotonic() - started)

    async def summarise(
        self,
        request: Request,
        context: TurnContext,
        prompt: Prompt,
        trigger: str,
        tokens: int,
        *,
        refused: int | None = None,
    ) -> CompactionResult | None:
        """Store a new view with a summary and return it, or return None if the old view stays.

        Args:
            refused: The size of the prompt that the provider has refused.
        """
        started = self._monotonic()
        context.emit(CompactionStart(tokens))
        try:
            own = cast("Chat", request.model)
            cold = context.seconds_since_call(self._monotonic()) >= self._policy.prune.idle_after_seconds
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
        recovered = bool(context.compaction_state.failures)
        await self._stand(context, CompactionState(made.view), archives=made.method != "prune")
        if recovered:
            self._counts.failing(await self._views.failing(at_least=self._policy.guard.max_failures))
        if made.method != "prune":
            context.calls_since_summary = 0
        self._counts.made(context, made, prompt, trigger=trigger, seconds=self._monotonic() - started)
        return made

    async def _failed(self, context: TurnContext, prompt: Prompt, reason: str, tokens: int) -> None:
        """Store the failure and when compaction is tried again, and log both."""
        standing, most = context.compaction_state, self._policy.guard.max_failures
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


def _answers(prompt: Prompt) -> int:
    """Return the number of model answers in the conversation, which is the number of successful model calls."""
    return sum(isinstance(message, AIMessage) for message in prompt.stored)
