"""Classifies failed model calls: whether to retry or to compact, and what to report to the caller.

Messages for callers never quote an exception.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

import httpx2
from langchain_core.messages import AIMessage

from fleetwright_agent.telemetry.failure_reasons import FALLBACK_REASONS, ModelFailureReason
from fleetwright_agent.turn.providers.chat_completions.errors import (
    CompletionConnectionError,
    CompletionTimeoutError,
)
from fleetwright_agent.turn.providers.error_meaning import Meaning, meaning_of, window_of
from fleetwright_agent.turn.providers.provider_errors import (
    ProviderError,
    is_anthropic,
    read_provider_error,
    retry_delay,
)

_MOST_OF_TEXT: Final = 500
_RATE_WAIT: Final = 5.0
"""Seconds to wait if a provider's rate-limit error states no delay."""
REFUSED: Final = "model_refused_request"
_OUTAGES: Final = ("model_error", "model_timeout", "model_unreachable")
_ACCESS_ERRORS: Final = ("model_unauthorized", "model_unpaid", "model_forbidden", "model_not_found")
_BROKEN_CALL: Final = "The model kept sending tool arguments that are not valid JSON."
_CUT_CALL: Final = "The model's answer repeatedly reached model.maxOutputTokens within a tool call."


class MalformedToolCall(Exception):  # noqa: N818 - the name states the condition
    """The model's tool arguments are not valid JSON. The tool did not run, but the tokens were used."""

    def __init__(self, sentence: str, spent: AIMessage | None = None, *, at_limit: bool = False) -> None:
        """Args: `at_limit` is True if the answer reached the limit of output tokens."""
        super().__init__(sentence)
        self.spent = spent
        self.at_limit = at_limit


class IncompleteAnswer(Exception):  # noqa: N818 - the name states the condition
    """The provider has not said that the answer is complete, or it said that it failed."""

    def __init__(self, sentence: str, spent: AIMessage | None = None) -> None:
        super().__init__(sentence)
        self.spent = spent


class FullWindow(IncompleteAnswer):
    """The prompt has left no space for an answer in the context window."""


class RefusedAnswer(Exception):  # noqa: N818 - the name states the condition
    """The model declined to answer, or a content filter of its provider ended the answer."""

    def __init__(self, text: str, spent: AIMessage | None = None) -> None:
        """Args: `text` is that of the model; empty for a content filter."""
        super().__init__(text or "a content filter")
        self.text = text
        self.spent = spent


class MissingKey(Exception):  # noqa: N818 - the name states the condition
    """A file with the model's key or with one of its headers is missing."""


class UntrustedAuthority(Exception):  # noqa: N818 - the name states the condition
    """The file with the model's certificate authority cannot be used."""


@dataclass(frozen=True, slots=True)
class ModelFailure:
    reason: ModelFailureReason
    message: str
    transient: bool = False
    overflow: bool = False
    retry_after: float | None = None
    """The delay that the provider requested, in seconds, up to a maximum."""
    window: int | None = None
    """The context window in tokens, if the provider's error states it."""
    filters_prompt: bool = False
    """True if a content filter refused the prompt."""

    @property
    def refuses_prompt(self) -> bool:
        """True if another prompt may succeed where this one fails."""
        return self.reason == REFUSED or self.filters_prompt

    @property
    def elsewhere(self) -> bool:
        """True if another model may succeed where this one fails."""
        return self.reason in FALLBACK_REASONS

    @property
    def is_outage(self) -> bool:
        """True if the provider failed: a status of 500 or more, a timeout, or no connection."""
        return self.transient and self.reason in _OUTAGES

    @property
    def is_access_error(self) -> bool:
        """True for the statuses 401, 402, 403 and 404: every call fails until a person removes the cause."""
        return self.reason in _ACCESS_ERRORS


def classify(error: BaseException) -> ModelFailure | None:
    """Classify an exception of a model call. Return None if no provider raised it."""
    for cause in _causes(error):
        found = _known(cause)
        if found is not None:
            return found
    return None


def usage_of_failure(error: BaseException) -> AIMessage | None:
    """The usage of a failed call, if the provider reported it."""
    billed = (MalformedToolCall, IncompleteAnswer, RefusedAnswer)
    return next((cause.spent for cause in _causes(error) if isinstance(cause, billed)), None)


def provider_text(error: BaseException) -> str:
    """Return the provider's own error text for the log, at most 500 characters."""
    for cause in _causes(error):
        if _known(cause) is not None:
            said = getattr(cause, "message", None) or str(cause)
            return _cut(" ".join(str(said).split()))
    return ""


def _cut(text: str) -> str:
    """Truncate the text at a word boundary: the redaction would not recognise half of a secret."""
    if len(text) <= _MOST_OF_TEXT:
        return text
    return text[: text.rfind(" ", 0, _MOST_OF_TEXT) + 1] + "…"


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


_TIMEOUTS: Final = (CompletionTimeoutError, httpx2.TimeoutException, TimeoutError)
_CONNECTION_ERRORS: Final = (CompletionConnectionError, httpx2.TransportError)


def _known(error: BaseException) -> ModelFailure | None:
    match error:
        case MalformedToolCall():
            return _build_malformed_call(_CUT_CALL if error.at_limit else _BROKEN_CALL)
        case FullWindow():
            return _build_overflow(None)
        case IncompleteAnswer():
            return ModelFailure("model_error", "The model's answer ended before it was complete.", transient=True)
        case RefusedAnswer():
            return _build_refused_answer(error.text)
        case MissingKey():
            sentence = "A key or header for the model is missing from this agent's Secrets."
            return ModelFailure("model_key_missing", sentence)
        case UntrustedAuthority():
            sentence = "The certificate authority declared for the model cannot be used."
            return ModelFailure("model_ca_unusable", sentence)
    if isinstance(error, _TIMEOUTS) or is_anthropic(error, "APITimeoutError"):
        return ModelFailure("model_timeout", "The model did not answer in time.", transient=True)
    if isinstance(error, _CONNECTION_ERRORS) or is_anthropic(error, "APIConnectionError"):
        sentence = "The model could not be reached, or the connection broke."
        return ModelFailure("model_unreachable", sentence, transient=True)
    stated = read_provider_error(error)
    return None if stated is None else _build_failure(stated)


def _build_failure(error: ProviderError) -> ModelFailure:
    status = "" if error.status is None else f" ({error.status})"
    match meaning_of(error.status, error.codes, error.text):
        case Meaning.OVERFLOW:
            return _build_overflow(window_of(error.text))
        case Meaning.MALFORMED_CALL:
            return _build_malformed_call(_BROKEN_CALL)
        case Meaning.FILTERED:
            return replace(_build_refused_answer(""), filters_prompt=error.status is not None)
        case Meaning.UNAUTHORIZED:
            return ModelFailure("model_unauthorized", "The model refused this agent's key (401).")
        case Meaning.UNPAID:
            return ModelFailure("model_unpaid", "The account at the model's provider has no credit left (402).")
        case Meaning.FORBIDDEN:
            return ModelFailure("model_forbidden", "The model refused this agent (403).")
        case Meaning.NOT_FOUND:
            return ModelFailure("model_not_found", "The model or its address is unknown to the provider (404).")
        case Meaning.RATE_LIMITED:
            wait = retry_delay(error)
            wait = _RATE_WAIT if wait is None else wait
            sentence = "The model's rate limit is exhausted (429)."
            return ModelFailure("model_rate_limited", sentence, True, retry_after=wait)
        case Meaning.INVALID:
            return ModelFailure(REFUSED, f"The model refused the request{status}.")
        case Meaning.BROKEN if error.status is None:
            return ModelFailure("model_error", "The model reported an error while answering.", transient=True)
        case Meaning.BROKEN:
            sentence = f"The model answered with an error{status}."
            return ModelFailure("model_error", sentence, True, retry_after=retry_delay(error))
        case Meaning.OTHER:
            return ModelFailure("model_error", f"The model answered with an error{status}.")


def _build_overflow(window: int | None) -> ModelFailure:
    sentence = "The conversation is larger than the model's context window."
    return ModelFailure("model_context_overflow", sentence, overflow=True, window=window)


def _build_malformed_call(sentence: str) -> ModelFailure:
    # Retry at once: the model is available, and its next output will differ.
    return ModelFailure("model_malformed_tool_call", sentence, True, retry_after=0.0)


def _build_refused_answer(text: str) -> ModelFailure:
    """Args: `text` is that of a model which declined; empty for a content filter."""
    if not text:
        return ModelFailure("model_refused_answer", "A content filter of the model's provider refused the answer.")
    return ModelFailure("model_refused_answer", f"The model declined to answer: {_cut(' '.join(text.split()))}")


_LONGEST_BACKOFF: Final = 30.0
"""The maximum backoff in seconds."""


def backoff(attempt: int, retry_after: float | None) -> float:
    """Return the seconds before the next attempt: the provider's value, or exponential backoff up to 30 seconds.

    Half of the backoff is random jitter.
    """
    if retry_after is not None:
        return retry_after
    ceiling = min(_LONGEST_BACKOFF, 2.0**attempt)
    return ceiling / 2 + random.uniform(0, ceiling / 2)  # noqa: S311 - spreads load, not for security
