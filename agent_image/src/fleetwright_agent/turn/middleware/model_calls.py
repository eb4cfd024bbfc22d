"""The innermost link of a model call: tries again what may pass, counts what was used, says what failed."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from decimal import Decimal

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage

from fleetwright_agent.config import Model
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.turn.characters import Whole
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.failures import Failure, classify, spent
from fleetwright_agent.turn.frames import Purpose, Reasoning, Reset, Text, TurnFailed, Usage
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.prices import cost_usd

_ATTEMPTS = 3
_LONGEST_BACKOFF = 30.0


class ModelFailed(TurnFailed):
    """A failed model call with its meaning, so that an outer link can mend an overflow."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.reason, failure.message)
        self.failure = failure


class ModelCalls:
    """Attempts are counted per request, waits have jitter and end with the turn (T-07, T-08)."""

    def __init__(
        self, model: Model, metrics: Metrics, *, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    ) -> None:
        self._model = model
        self._metrics = metrics
        self._sleep = sleep

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context = request.runtime.context
        for attempt in range(1, _ATTEMPTS + 1):
            if context.failure is not None:
                raise context.failure
            try:
                return await self._once(request, call, context)
            except Exception as error:
                failure = classify(error)
                if failure is None:
                    raise
                self._metrics.llm_calls.labels(self._model.name, failure.reason).inc()
                if (message := spent(error)) is not None:
                    context.emit(account(message, self._model, self._metrics, Purpose.ANSWER))
                if not failure.transient or attempt == _ATTEMPTS:
                    raise ModelFailed(failure) from error
                if context.spoken:
                    context.emit(Reset(failure.reason))
                    context.spoken = False
                await self._sleep(backoff(attempt, failure.retry_after))
        raise AssertionError("the loop returns or raises")

    async def _once(self, request: Request, call: ModelCall, context: TurnContext) -> Reply:
        started = time.perf_counter()
        spoken_before = context.spoken
        context.spoken = False

        def said(text: str) -> None:
            if context.silent:
                return
            if not context.spoken:
                self._metrics.llm_first_token.labels(self._model.name).observe(time.perf_counter() - started)
                if spoken_before:
                    context.emit(Text("\n\n"))
            context.spoken = True
            context.emit(Text(text))

        whole = Whole()

        def thought(text: str) -> None:
            if not context.silent:
                context.emit(Reasoning(whole(text)))

        speaking = request.model.model_copy(update={"said": said, "thought": thought})
        reply = await call(request.override(model=speaking))
        self._metrics.llm_latency.labels(self._model.name).observe(time.perf_counter() - started)
        self._metrics.llm_calls.labels(self._model.name, "ok").inc()
        message = _answer(reply)
        if message is not None:
            context.emit(account(message, self._model, self._metrics, Purpose.ANSWER))
        return reply


def _answer(reply: Reply) -> AIMessage | None:
    response = reply if isinstance(reply, ModelResponse) else reply.model_response
    return next((message for message in response.result if isinstance(message, AIMessage)), None)


def backoff(attempt: int, retry_after: float | None) -> float:
    """Seconds before the next attempt: what the provider asked for, else 2^n, at most 30, half of it jitter."""
    if retry_after is not None:
        return retry_after
    ceiling = min(_LONGEST_BACKOFF, 2.0**attempt)
    return ceiling / 2 + random.uniform(0, ceiling / 2)  # noqa: S311 - spreads load, guards nothing


def account(message: AIMessage, model: Model, metrics: Metrics, purpose: Purpose) -> Usage:
    """Counts one reply's tokens and money; the returned frame and the counters always agree."""
    usage = message.usage_metadata
    read = (usage.get("input_token_details") or {}).get("cache_read", 0) or 0 if usage else 0
    tokens_in = usage["input_tokens"] if usage else 0
    tokens_out = usage["output_tokens"] if usage else 0
    # Without a count there is no price: nothing used and nothing said are not the same.
    price = model.price if usage else None
    cost = cost_usd(price, input_tokens=tokens_in, output_tokens=tokens_out, cache_read_tokens=read)
    metrics.llm_tokens.labels(model.name, "input").inc(tokens_in)
    metrics.llm_tokens.labels(model.name, "output").inc(tokens_out)
    metrics.llm_cache_tokens.labels(model.name, "read").inc(read)
    if cost is None:
        metrics.llm_unpriced_calls.labels(model.name).inc()
    else:
        metrics.llm_cost_usd.labels(model.name).inc(float(cost))
    if purpose is Purpose.SUMMARY:
        metrics.compaction_llm_tokens.labels("input", "false").inc(tokens_in - read)
        metrics.compaction_llm_tokens.labels("input", "true").inc(read)
        metrics.compaction_llm_tokens.labels("output", "false").inc(tokens_out)
        metrics.compaction_cost_usd.inc(float(cost or Decimal(0)))
    return Usage(model.name, tokens_in, tokens_out, read, cost, purpose)
