"""Reads what a provider has stated about an error, in the same form for all clients.

Only this module knows the exceptions of the clients. Those of the stock clients are recognised by class name, so that
an agent does not import the clients that it does not use.
"""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any, Final

from fleetwright_agent.turn.providers.chat_completions.errors import (
    CompletionError,
    describe_error,
)

_ANTHROPIC: Final = "anthropic"
_GOOGLE: Final = "google.genai.errors"
_FIRST_ERROR: Final = 400
_LONGEST_DELAY: Final = 60.0
_DELAY: Final = re.compile(
    r"(?:retry|try again) (?:in|after) (?:(?P<minutes>\d{1,3})m(?!s))?(?P<number>\d{1,6}(?:\.\d{1,12})?) ?(?P<unit>m?s)"
)
"""A delay in an error text, in lower case, such as `try again in 1m7.5s` or `retry in 250ms`."""


@dataclass(frozen=True, slots=True)
class ProviderError:
    """An error that a provider has stated, in the same form for all clients."""

    status: int | None
    """None for an error in a response with a status of success, and for a redirect."""
    text: str
    codes: tuple[str, ...]
    headers: Mapping[str, str]


def read_provider_error(error: BaseException) -> ProviderError | None:
    """Return the error that a provider has stated; None for an exception of another origin."""
    if isinstance(error, CompletionError):
        return _build_error(
            getattr(error, "status_code", 0), error.message, error.codes, getattr(error, "headers", None)
        )
    found: Any = error
    headers = getattr(getattr(error, "response", None), "headers", None)
    if is_anthropic(error, "APIError"):
        described = describe_error(found.body)
        return _build_error(getattr(error, "status_code", 0), str(found.message), described.codes, headers)
    if any(each.__module__ == _GOOGLE for each in type(error).__mro__):
        details = getattr(error, "details", None)
        codes = (*describe_error(details).codes, *_list_reasons(details))
        return _build_error(
            getattr(error, "code", 500), f"{found.message} {_build_delay_text(details)}", codes, headers
        )
    return None


def _build_error(status: int, text: str, codes: tuple[str, ...], headers: Mapping[str, str] | None) -> ProviderError:
    return ProviderError(status if status >= _FIRST_ERROR else None, text, codes, headers or {})


def _list_details(body: Any) -> list[Mapping[str, Any]]:
    """Return the details in the body of Google's error."""
    body = body[0] if isinstance(body, list) and body else body
    error = body.get("error", body) if isinstance(body, Mapping) else {}
    found = error.get("details") if isinstance(error, Mapping) else None
    return [each for each in found if isinstance(each, Mapping)] if isinstance(found, list) else []


def _list_reasons(body: Any) -> list[str]:
    return [str(each["reason"]) for each in _list_details(body) if each.get("reason")]


def _build_delay_text(body: Any) -> str:
    """Return the delay that Google states apart from the text, as a text."""
    return next((f"(retry in {each['retryDelay']})" for each in _list_details(body) if each.get("retryDelay")), "")


def is_anthropic(error: BaseException, name: str) -> bool:
    return any(
        each.__name__ == name and each.__module__.partition(".")[0] == _ANTHROPIC for each in type(error).__mro__
    )


def retry_delay(error: ProviderError) -> float | None:
    """Return the seconds to wait before another attempt, at most a minute, as the headers or the text state them."""
    delays = (stated(error) for stated in (_read_retry_after_ms, _read_retry_after, _read_delay_in_text))
    found = next((delay for delay in delays if delay is not None), None)
    return None if found is None else min(_LONGEST_DELAY, max(0.0, found))


def _read_retry_after_ms(error: ProviderError) -> float | None:
    try:
        found = float(error.headers.get("retry-after-ms", "")) / 1000
    except ValueError:
        return None
    return found if math.isfinite(found) else None


def _read_retry_after(error: ProviderError) -> float | None:
    """Return the delay of Retry-After. If it is a date, subtract the provider's own `Date` header from it."""
    said, date = error.headers.get("retry-after", ""), error.headers.get("date", "")
    try:
        found = float(said)
    except ValueError:
        try:
            found = (parsedate_to_datetime(said) - parsedate_to_datetime(date)).total_seconds()
        except (ValueError, TypeError):
            return None
    return found if math.isfinite(found) else None


def _read_delay_in_text(error: ProviderError) -> float | None:
    found = _DELAY.search(error.text.lower())
    if found is None:
        return None
    scale = 0.001 if found["unit"] == "ms" else 1.0
    return 60.0 * int(found["minutes"] or 0) + scale * float(found["number"])
