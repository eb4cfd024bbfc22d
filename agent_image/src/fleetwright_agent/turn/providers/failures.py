"""Classifies failed model calls: whether to retry or to compact, and what to report to the caller.

Only this module knows the exceptions of the provider clients. Those of the stock clients are recognised by class name,
so that an agent does not import the clients that it does not use. Messages for callers never quote an exception.
"""

import math
import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from typing import Any, Final

import httpx2
from langchain_core.messages import AIMessage

from fleetwright_agent.telemetry.failure_reasons import FALLBACK_REASONS, ModelFailureReason
from fleetwright_agent.turn.providers.chat_completions.errors import (
    CompletionConnectionError,
    CompletionError,
    CompletionStatusError,
    CompletionTimeoutError,
)

_OVERFLOW_CODES = {"context_length_exceeded"}
_OVERFLOW_WORDS = (
    "context length",
    "context window",
    "context limit",
    "context size",
    "maximum context",
    "maximum prompt length",
    "prompt is too long",
    "input is too long",
    "too many tokens",
    "exceeds the maximum number of tokens",
)
_WINDOW: Final = re.compile(
    r"(?:maximum (?:context|prompt) length is |context (?:size|window|length) (?:is |of )?\(?|> |tokens allowed \()"
    r"(\d[\d,]{2,12})"
)
"""The size of the context window in an error message, in lower case.

OpenAI and vLLM: `maximum context length is`. xAI: `maximum prompt length is`. llama.cpp: `context size`. Anthropic:
`>`. Google: `tokens allowed (`.
"""
_KEY_WORDS: Final = "API key not valid"
"""In Google's error for an invalid key, which has status 400 instead of 401."""
_CREDIT_WORDS: Final = "credit balance is too low"
"""In Anthropic's error for missing credit, which has status 400 instead of 402."""
_LONGEST_WAIT = 60.0
_MOST_OF_TEXT: Final = 500
_RATE_WAIT: Final = 5.0
"""Seconds to wait if a provider's rate-limit error states no delay."""
_ANTHROPIC: Final = "anthropic"
_GOOGLE: Final = "google.genai.errors"
REFUSED: Final = "model_refused_request"
_OUTAGES: Final = ("model_error", "model_timeout", "model_unreachable")
_ACCESS_ERRORS: Final = ("model_unauthorized", "model_unpaid", "model_forbidden", "model_not_found")
_CUT_CALL: Final = "The model's answer repeatedly reached model.maxOutputTokens within a tool call."


class MalformedToolCall(Exception):  # noqa: N818 - the name states the condition
    """The model's tool arguments are not valid JSON. The tool did not run, but the tokens were used."""

    def __init__(self, sentence: str, spent: AIMessage | None = None, *, at_limit: bool = False) -> None:
        """Args: `at_limit` is True if the answer reached the limit of output tokens."""
        super().__init__(sentence)
        self.spent = spent
        self.at_limit = at_limit


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
    return next((cause.spent for cause in _causes(error) if isinstance(cause, MalformedToolCall)), None)


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
    if isinstance(error, MalformedToolCall):
        # Retry at once: the model is available, and its next output will differ.
        sentence = _CUT_CALL if error.at_limit else "The model kept sending tool arguments that are not valid JSON."
        return ModelFailure("model_malformed_tool_call", sentence, True, retry_after=0.0)
    if isinstance(error, MissingKey):
        return ModelFailure("model_key_missing", "A key or header for the model is missing from this agent's Secrets.")
    if isinstance(error, UntrustedAuthority):
        return ModelFailure("model_ca_unusable", "The certificate authority declared for the model cannot be used.")
    if isinstance(error, CompletionStatusError) or _is(error, "APIStatusError"):
        return _status(error.status_code, error)  # type: ignore[attr-defined]  # recognised by its class name
    if any(each.__module__ == _GOOGLE for each in type(error).__mro__):
        return _status(getattr(error, "code", 500), error)
    if isinstance(error, _TIMEOUTS) or _is(error, "APITimeoutError"):
        return ModelFailure("model_timeout", "The model did not answer in time.", transient=True)
    if isinstance(error, _CONNECTION_ERRORS) or _is(error, "APIConnectionError"):
        return ModelFailure(
            "model_unreachable", "The model could not be reached, or the connection broke.", transient=True
        )
    if isinstance(error, CompletionError) or _is(error, "APIError"):
        # An error event inside a stream has no status code.
        return _overflow(error) if _overflowed(error) else _IN_STREAM
    return None


def _is(error: BaseException, name: str) -> bool:
    return any(
        each.__name__ == name and each.__module__.partition(".")[0] == _ANTHROPIC for each in type(error).__mro__
    )


_OVERFLOW = ModelFailure(
    "model_context_overflow",
    "The conversation is larger than the model's context window.",
    overflow=True,
)
_IN_STREAM = ModelFailure("model_error", "The model reported an error while answering.", transient=True)


def _status(status: int, error: Any) -> ModelFailure:
    if status < 400:
        return _IN_STREAM
    if status == 413 or (status in {400, 422} and _overflowed(error)):
        return _overflow(error)
    if status == 401 or _KEY_WORDS in str(error.message):
        return ModelFailure("model_unauthorized", "The model refused this agent's key (401).")
    if status == 402 or _CREDIT_WORDS in str(error.message):
        return ModelFailure("model_unpaid", "The account at the model's provider has no credit left (402).")
    if status == 403:
        return ModelFailure("model_forbidden", "The model refused this agent (403).")
    if status == 404:
        return ModelFailure("model_not_found", "The model or its address is unknown to the provider (404).")
    if status == 429:
        wait = _retry_after(error)
        wait = _RATE_WAIT if wait is None else wait
        return ModelFailure("model_rate_limited", "The model's rate limit is exhausted (429).", True, retry_after=wait)
    if status in {408, 409, 425} or status >= 500:
        wait = _retry_after(error)
        return ModelFailure("model_error", f"The model answered with an error ({status}).", True, retry_after=wait)
    if status in {400, 422}:
        return ModelFailure(REFUSED, f"The model refused the request ({status}).")
    return ModelFailure("model_error", f"The model answered with an error ({status}).")


def _overflow(error: Any) -> ModelFailure:
    named = _WINDOW.search(str(error.message).lower())
    return replace(_OVERFLOW, window=int(named[1].replace(",", ""))) if named else _OVERFLOW


def _overflowed(error: Any) -> bool:
    text = str(error.message).lower()
    return getattr(error, "code", None) in _OVERFLOW_CODES or any(word in text for word in _OVERFLOW_WORDS)


def _retry_after(error: Any) -> float | None:
    """Return the delay in seconds. If the header is a date, subtract the provider's own `Date` header from it."""
    holder = error if isinstance(error, CompletionStatusError) else error.response
    headers = getattr(holder, "headers", {})
    said = headers.get("retry-after", "")
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = (parsedate_to_datetime(said) - parsedate_to_datetime(headers.get("date", ""))).total_seconds()
        except (ValueError, TypeError):
            return None
    return min(_LONGEST_WAIT, max(0.0, seconds)) if math.isfinite(seconds) else None


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
