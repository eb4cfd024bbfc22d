"""Validates the arguments of a tool call: they must be a JSON object that every later consumer can represent."""

import json
import math
from typing import Any, Final, NoReturn

from langchain_core.messages import AIMessage

from fleetwright_agent.turn.providers.characters import is_whole
from fleetwright_agent.turn.providers.failures import MalformedToolCall
from fleetwright_agent.turn.providers.finish_reason import FinishReason

_LIMITS: Final = {FinishReason.LIMIT, FinishReason.WINDOW}
_MOST_DEPTH: Final = 24
"""The maximum nesting depth. Questions and typed results contain arguments, and must fit into A2A messages."""


def require_object(text: str, spent: AIMessage | None, *, end: FinishReason = FinishReason.OWN) -> None:
    """Check the arguments of a tool call. Args: `end` is the reason why the answer with the call ended.

    Raises: MalformedToolCall, with the usage in `spent`.
    """
    if end is not FinishReason.OWN and not text.strip():
        # After a complete answer, empty text is a call without arguments.
        raise MalformedToolCall("a tool call ends before its arguments", spent, at_limit=end in _LIMITS)
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant, parse_float=_finite)
    except ValueError as error:
        raise MalformedToolCall("tool arguments are not JSON", spent, at_limit=end in _LIMITS) from error
    except RecursionError as error:
        raise MalformedToolCall("tool arguments are nested too deeply to parse", spent) from error
    if not isinstance(value, dict):
        raise MalformedToolCall("tool arguments are not an object", spent)
    if not is_whole(json.dumps(value, ensure_ascii=False)):
        raise MalformedToolCall("tool arguments contain a lone surrogate", spent)
    if _deeper(value, _MOST_DEPTH):
        raise MalformedToolCall(f"tool arguments are nested deeper than {_MOST_DEPTH}", spent)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    """Reject numbers that overflow to infinity, which JSON cannot represent."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _deeper(value: Any, levels: int) -> bool:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 0 or _deeper(inner, levels - 1) for inner in within if isinstance(inner, dict | list))
