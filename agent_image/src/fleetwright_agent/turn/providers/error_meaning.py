"""Decides what the error of a provider means, from its status, its codes and its text. Pure.

Providers use one status for different errors: a status of 429 may mean that a minute's requests or that all credit is
used up, and 400 may mean an invalid key. Codes are the same for all requests, and texts are a last resort.
"""

import re
from collections.abc import Sequence
from enum import Enum, auto
from typing import Final
from urllib.parse import unquote


class Meaning(Enum):
    OVERFLOW = auto()
    """The prompt is larger than the context window."""
    FILTERED = auto()
    """A content filter refused the prompt or the answer."""
    UNPAID = auto()
    UNAUTHORIZED = auto()
    FORBIDDEN = auto()
    NOT_FOUND = auto()
    RATE_LIMITED = auto()
    BROKEN = auto()
    """The provider failed. The same request may succeed later."""
    MALFORMED_CALL = auto()
    """The model wrote a tool call that the provider could not read."""
    INVALID = auto()
    """The request is refused as it is."""
    OTHER = auto()


_CODES: Final[dict[Meaning, tuple[str, ...]]] = {
    Meaning.OVERFLOW: (
        *("context_length_exceeded", "exceed_context_size_error", "context_window_exceeded"),
        *("model_max_prompt_tokens_exceeded", "1261"),  # GitHub, Zhipu
    ),
    Meaning.FILTERED: (
        *("content_filter", "content_policy_violation", "responsibleaipolicyviolation", "content_filtered"),
        *("data_inspection_failed", "datainspectionfailed", "moderation_blocked", "1301"),  # DashScope, OpenAI, Zhipu
    ),
    Meaning.UNPAID: (
        *("insufficient_quota", "billing_error", "billing_hard_limit_reached", "insufficient_balance"),
        *("exceeded_current_quota_error", "arrearage", "insufficient_user_quota", "1113"),  # Kimi, DashScope, Zhipu
        *("payment_required", "insufficient_credits", "budget_exceeded"),
    ),
    Meaning.UNAUTHORIZED: (
        *("invalid_api_key", "authentication_error", "invalid_authentication_error", "incorrect_api_key_error"),
        *("unauthenticated", "invalidapikey", "api_key_invalid", "auth_error", "unauthorized", "1001", "1002"),
    ),
    Meaning.FORBIDDEN: ("permission_error", "permission_denied", "permission_denied_error", "forbidden", "1220"),
    Meaning.NOT_FOUND: (
        *("model_not_found", "not_found_error", "not_found", "resource_not_found_error", "deploymentnotfound"),
        *("model_not_exist", "modelnotfound", "1211", "model_decommissioned", "invalid_model"),
    ),
    Meaning.RATE_LIMITED: (
        *("rate_limit_exceeded", "rate_limit_error", "rate_limit_reached_error", "resource_exhausted"),
        *("throttling", "limit_requests", "limit_burst_rate", "too_many_requests", "1302", "1303", "1305"),
    ),
    Meaning.BROKEN: (
        *("server_error", "internal_server_error", "internal_error", "api_error", "overloaded_error", "overloaded"),
        *("engine_overloaded_error", "service_unavailable", "unavailable", "internal", "deadline_exceeded"),
        *("timeout_error", "upstream_error", "generation", "incomplete_generation"),
    ),
    Meaning.MALFORMED_CALL: ("tool_use_failed", "output_parse_failed"),
    Meaning.INVALID: ("invalid_request_error", "invalid_argument", "failed_precondition", "invalid_value"),
}
_MEANINGS: Final = {code: meaning for meaning, codes in _CODES.items() for code in codes}
_REFINING: Final = frozenset(
    {
        *(Meaning.OVERFLOW, Meaning.FILTERED, Meaning.UNPAID, Meaning.UNAUTHORIZED, Meaning.NOT_FOUND),
        *(Meaning.RATE_LIMITED, Meaning.MALFORMED_CALL),
    }
)
"""The meanings for which a code is more exact than the status."""
_TEXTS: Final[tuple[tuple[Meaning, tuple[str, ...]], ...]] = (
    (Meaning.UNAUTHORIZED, ("api key not valid", "invalid api key", "incorrect api key")),
    (Meaning.UNPAID, ("credit balance is too low", "insufficient balance", "used all available credits")),
    (Meaning.BROKEN, ("degraded function cannot be invoked",)),
)
"""In errors of other statuses: Google's for an invalid key, Anthropic's for missing credit and NVIDIA's for a function
that has failed have the status 400, and xAI's for missing credit has 429.
"""
_OVERFLOW_TEXTS: Final = (
    "context length",
    "context window",
    "context limit",
    "context size",
    "maximum context",
    "maximum prompt length",
    "maximum model length",
    "prompt is too long",
    "input is too long",
    "exceeds the maximum number of tokens",
    "exceeded model token limit",  # Moonshot
    "range of input length",  # DashScope
    "prompt exceeds max length",  # Zhipu
    "`inputs` tokens",  # TGI
    "`inputs` must have less than",  # TGI
)
_UNCLEAR_OVERFLOW: Final = "too many tokens"
"""With another status than that of a refused request, it is a limit of the rate."""
_WINDOW: Final = re.compile(
    r"(?:maximum (?:context|prompt) length is |maximum model length of |context (?:size|window|length) (?:is |of )?\(?"
    r"|> |tokens allowed \(|model token limit: |input length should be \[\d+, ?|must be <= |must have less than )"
    r"(\d[\d,]{2,12})|model with (\d{3,12}) maximum context length"
)
"""The size of the context window in an error text, in lower case.

OpenAI and vLLM: `maximum context length is` or `maximum model length of`. xAI: `maximum prompt length is`. llama.cpp:
`context size`. Anthropic: `>`. Google: `tokens allowed (`. Moonshot: `model token limit`. DashScope: `input length
should be [1,`. TGI: `must be <=` and `must have less than`. Mistral: `model with`.
"""
_STATUS: Final = re.compile(r"[45][0-9]{2}")
_TOO_LARGE: Final = 413
_STATUSES: Final = {
    400: Meaning.INVALID,
    401: Meaning.UNAUTHORIZED,
    402: Meaning.UNPAID,
    403: Meaning.FORBIDDEN,
    404: Meaning.NOT_FOUND,
    408: Meaning.BROKEN,
    409: Meaning.BROKEN,
    422: Meaning.INVALID,
    425: Meaning.BROKEN,
    429: Meaning.RATE_LIMITED,
}
_TEXT_STATUSES: Final = frozenset({400, 422})
"""The client errors in which a text may describe an overflow."""


def meaning_of(status: int | None, codes: Sequence[str], text: str) -> Meaning:
    """Return the meaning of an error.

    Args:
        status: The HTTP status of the response; None for an error in a response with a status of success.
        codes: The provider's names and numbers of the error, the most exact one first.
        text: The error text.
    """
    stated = [meaning for code in codes if (meaning := _MEANINGS.get(_normalise_code(code))) is not None]
    if status == _TOO_LARGE:
        return Meaning.OVERFLOW  # Groq's code for it is that of a rate limit.
    refined = next((meaning for meaning in stated if meaning in _REFINING), None)
    if refined is not None:
        return refined
    words = unquote(text).lower()  # xAI encodes some texts as in a URL.
    if status is None:
        status = next((int(code) for code in codes if _STATUS.fullmatch(code)), None)
    if status in _TEXT_STATUSES and _UNCLEAR_OVERFLOW in words:
        return Meaning.OVERFLOW
    may_overflow = status is None or status in _TEXT_STATUSES or status >= 500
    if may_overflow and any(each in words for each in _OVERFLOW_TEXTS):
        return Meaning.OVERFLOW
    if found := next((meaning for meaning, texts in _TEXTS if any(each in words for each in texts)), None):
        return found
    if status is None:
        return stated[0] if stated else Meaning.BROKEN
    return _STATUSES.get(status, Meaning.BROKEN if status >= 500 else Meaning.OTHER)


def window_of(text: str) -> int | None:
    """Return the size of the context window in tokens, if the error text states it."""
    found = _WINDOW.search(text.lower())
    return int((found[1] or found[2]).replace(",", "")) if found else None


def _normalise_code(code: str) -> str:
    """Return a code in lower case, without a more exact part such as that of `Throttling.RateQuota`."""
    return code.lower().partition(".")[0]
