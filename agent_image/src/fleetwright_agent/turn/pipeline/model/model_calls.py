"""The link that makes a model call: retries transient failures, charges usage, and classifies errors.

Each call is charged to the model that was called, at that model's price.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, cast

from langchain.agents.middleware import ModelResponse
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.messages.ai import UsageMetadata

from fleetwright_agent.config.model import Model
from fleetwright_agent.protocol.frames import (
    ContextReport,
    Purpose,
    Reasoning,
    RetryWait,
    StreamReset,
    Text,
    TurnFailed,
)
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD, Tracing
from fleetwright_agent.turn.compaction.measure import estimate
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import CostAccounting, OverBudget
from fleetwright_agent.turn.cost.usage import CostAccount
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.budget_limit import enforce_budget
from fleetwright_agent.turn.pipeline.model.chat_span import chat_span
from fleetwright_agent.turn.pipeline.model.model_choice import ModelChoice
from fleetwright_agent.turn.pipeline.model.prompt_size import minimum_prompt_size, prompt_size
from fleetwright_agent.turn.providers.characters import WholeCharacters
from fleetwright_agent.turn.providers.factory import Chat
from fleetwright_agent.turn.providers.failures import ModelFailure, backoff, classify, provider_text, usage_of_failure
from fleetwright_agent.turn.providers.finish_reason import FinishReason, end_of
from fleetwright_agent.turn.tool_call_ids import assign_unique_ids, assign_valid_names

T = TypeVar("T")
_log = logging.getLogger(__name__)
_CHARACTERS = 4
"""Estimated characters per token, for calls whose usage the provider does not report."""
_WORTH_TELLING = 1.0
"""The shortest wait, in seconds, for which the caller gets a status message."""


@dataclass(slots=True)
class _CallProgress:
    """The length of one call's output so far, including output that the caller does not receive."""

    characters: int = 0


class ModelFailed(TurnFailed):
    """A failed model call with its classification, which lets an outer link recover from an overflow."""

    def __init__(self, failure: ModelFailure, model: str = "") -> None:
        """Args: `model` is the name of the model that was called."""
        super().__init__(failure.reason, failure.message)
        self.failure = failure
        self.model = model


class ModelCalls:
    """Limits attempts per request, and waits between them with jittered backoff."""

    def __init__(
        self,
        model: Model,
        metrics: Metrics,
        *,
        accounting: CostAccounting,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        tracing: Tracing = UNTOLD,
        estimates: bool = False,
    ) -> None:
        """Args: `estimates` is True if calls without reported usage need an estimate although there are no budgets."""
        self._estimates = estimates or accounting.has_budgets
        self.choice = ModelChoice(model, accounting)
        self._metrics = metrics
        self._accounting = accounting
        self._sleep = sleep
        self._tracing = tracing

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context = request.runtime.context
        if not self._accounting.has_budgets:
            return await self._answered(request, call, context)
        declared, size = _chat(request), prompt_size(request)
        while True:
            chat = await self.choice.instead_of(declared, context)
            most = chat.endpoint.max_output_tokens
            begins = self.choice.begins_tasks(declared, chat, context)
            minimum = partial(minimum_prompt_size, request) if begins else None
            try:
                async with self._accounting.reserved(
                    chat.endpoint.price, tokens_in=size, tokens_out=most, minimum_prompt=minimum
                ):
                    return await self._answered(_by(chat, request), call, context)
            except OverBudget as over:
                enforce_budget(over, context, self._metrics)

    async def _answered(self, request: Request, call: ModelCall, context: TurnContext) -> Reply:
        chat = _chat(request)
        account = CostAccount(chat.endpoint.name, chat.endpoint.price, Purpose.ANSWER)

        async def once() -> Reply:
            with self._accounting.recorded(account, context.request, tokens_in=prompt_size(request)) as name:
                return await self._once(request, call, context, account, name)

        try:
            reply = await self._tried(once, context, account, chat.endpoint.retries)
        except ModelFailed as failed:
            window = failed.failure.window
            if window is not None and chat.endpoint.learn(window):
                _log.warning(
                    "the context window of the model is smaller than model.contextWindow",
                    extra={"model": account.model, "configured": chat.endpoint.context_window, "learned": window},
                )
            raise
        self.choice.answered(context.thread, chat)
        return reply

    async def aside(
        self, prompt: Sequence[AnyMessage], *, model: Any, chat: Chat, most: int, context: TurnContext
    ) -> AIMessage:
        """Make a call outside the conversation, with the usual retries and charges. Its text is not streamed.

        Args:
            prompt: The messages to send.
            model: The runnable to call: `chat` with its arguments bound.
            chat: The model behind `model`.
            most: The maximum tokens of the reply.
            context: The context of the turn.

        Raises:
            ModelFailed: The model failed, also after its retries.
            OverBudget: The call does not fit into a budget.
        """
        account = CostAccount(chat.endpoint.name, chat.endpoint.price, Purpose.SUMMARY)
        size = partial(estimate, prompt)

        async def once() -> AIMessage:
            with self._accounting.recorded(account, context.request, tokens_in=size()) as name:
                try:
                    reply: AIMessage = await chat_span(
                        lambda: model.ainvoke(list(prompt)), self._tracing, chat, context, answer=_itself
                    )
                except asyncio.CancelledError:
                    self._charge_estimate(size(), account, context, 0, name)
                    raise
                self._metrics.count_model_call(account.model, "ok")
                self._charge(reply, size, account, context, name)
                return reply

        async with self._accounting.reserved(account.price, tokens_in=size(), tokens_out=most):
            return await self._tried(once, context, account, chat.endpoint.retries)

    async def _tried(
        self, once: Callable[[], Awaitable[T]], context: TurnContext, account: CostAccount, retries: int
    ) -> T:
        for attempt in range(1, retries + 2):
            if context.failure is not None:
                raise context.failure
            try:
                return await once()
            except Exception as error:
                failure = classify(error)
                if failure is None:
                    raise
                self._metrics.count_model_call(account.model, failure.reason, is_outage=failure.is_outage)
                if failure.is_access_error:
                    self._metrics.model_health.note_refusal(account.model, failure.reason, provider_text(error))
                if (message := usage_of_failure(error)) is not None:
                    context.emit(self._accounting.charge(message, account, context.request))
                wait = backoff(attempt, failure.retry_after)
                impatient = context.patience is not None and wait > context.patience
                again = failure.transient and attempt <= retries and not impatient
                _tell_failed(account.model, failure, error, attempt=attempt, wait=wait if again else None)
                if not again:
                    raise ModelFailed(failure, account.model) from error
                if context.spoken and account.purpose is Purpose.ANSWER:
                    context.emit(StreamReset(failure.reason))
                    context.spoken = False
                if wait >= _WORTH_TELLING and not context.silent:
                    context.emit(RetryWait(failure.message, wait))
                await self._sleep(wait)
        raise AssertionError("the loop returns or raises")

    async def _once(
        self, request: Request, call: ModelCall, context: TurnContext, account: CostAccount, name: str
    ) -> Reply:
        """Args: `name` is the id under which the call is recorded."""
        started = time.perf_counter()
        spoken_before = context.spoken
        context.spoken = False

        heard = _CallProgress()

        def said(text: str) -> None:
            heard.characters += len(text)
            if context.silent:
                return
            if not context.spoken:
                self._metrics.llm_first_token.labels(account.model).observe(time.perf_counter() - started)
                if spoken_before:
                    context.emit(Text("\n\n"))
            context.spoken = True
            context.emit(Text(text))

        whole = WholeCharacters()

        def thought(text: str) -> None:
            heard.characters += len(text)
            if not context.silent:
                context.emit(Reasoning(whole(text)))

        speaking: Any = _chat(request).heard(said, thought)
        try:
            reply = await call(request.override(model=speaking))
        except BaseException as broken:
            # The provider has read the prompt and charges for it, even if the call was cancelled.
            cut = heard.characters or isinstance(broken, asyncio.CancelledError)
            if cut and usage_of_failure(broken) is None:
                self._charge_estimate(prompt_size(request), account, context, heard.characters, name)
            raise
        self._metrics.llm_latency.labels(account.model).observe(time.perf_counter() - started)
        self._metrics.count_model_call(account.model, "ok")
        message = answer_of(reply)
        if message is None:
            return reply
        assign_unique_ids(message, request.state["messages"])
        assign_valid_names(message)
        if end_of(message.response_metadata) in {FinishReason.LIMIT, FinishReason.WINDOW}:
            self._metrics.llm_cut_answers.labels(account.model).inc()
        self._charge(message, partial(prompt_size, request), account, context, name)
        if not context.request.sub_agent:
            usage = message.usage_metadata
            tokens = usage["input_tokens"] if usage else prompt_size(request)
            context.emit(ContextReport(account.model, tokens, _chat(request).endpoint.window))
        return reply

    def _charge(
        self, reply: AIMessage, size: Callable[[], int], account: CostAccount, context: TurnContext, name: str
    ) -> None:
        """Args: `size` returns the estimated tokens of the prompt. It is called if the provider reports no usage."""
        if not reply.usage_metadata and self._estimates:
            self._charge_estimate(size(), account, context, len(reply.text), name)
        else:
            context.emit(self._accounting.charge(reply, account, context.request, call=name))

    def _charge_estimate(
        self, tokens_in: int, account: CostAccount, context: TurnContext, characters: int, name: str
    ) -> None:
        """Charge an estimate for a call whose usage the provider did not report."""
        tokens_out = -(-characters // _CHARACTERS)
        usage = UsageMetadata(input_tokens=tokens_in, output_tokens=tokens_out, total_tokens=tokens_in + tokens_out)
        message = AIMessage("", usage_metadata=usage)
        context.emit(self._accounting.charge(message, account, context.request, estimated=True, call=name))


def _tell_failed(model: str, failure: ModelFailure, error: Exception, *, attempt: int, wait: float | None) -> None:
    """Log a failed call with the provider's error text.

    Args: `wait` is the delay before the retry, or None if the call is not retried.
    """
    about = {"model": model, "reason": failure.reason, "attempt": attempt, "provider": provider_text(error)}
    if wait is None:
        _log.warning("a model call failed", extra=about)
    else:
        _log.warning("a model call failed and is retried", extra={**about, "waitSeconds": round(wait, 1)})


def _itself(reply: AIMessage) -> AIMessage:
    return reply


def answer_of(reply: Reply) -> AIMessage | None:
    response = reply if isinstance(reply, ModelResponse) else reply.model_response
    return next((message for message in response.result if isinstance(message, AIMessage)), None)


def _by(chat: Chat, request: Request) -> Request:
    """Return the same request for another model at the same address."""
    model: Any = chat
    if model is request.model:
        return request
    # The other model may not support reasoning.
    settings = {key: value for key, value in request.model_settings.items() if key != "reasoning_effort"}
    return request.override(model=model, model_settings=settings)


def _chat(request: Request) -> Chat:
    return cast("Chat", request.model)
