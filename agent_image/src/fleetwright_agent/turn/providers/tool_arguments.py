"""The arguments of a tool call, as a model wrote them: an object of JSON that can be told of everywhere, or none."""

import json
import math
from typing import Any, Final, NoReturn

from langchain_core.messages import AIMessage

from fleetwright_agent.turn.providers.characters import is_whole
from fleetwright_agent.turn.providers.failures import MalformedToolCall
from fleetwright_agent.turn.providers.finish_reason import End

_MOST_DEPTH: Final = 24
"""What asks a person or answers in a shape must fit into the protocol's messages."""


def require_object(text: str, spent: AIMessage, *, end: End = End.OWN) -> None:
    """Args: `end` is that of the answer in which the call stands.

    Raises: MalformedToolCall, with what was `spent` on it.
    """
    if end is not End.OWN and not text.strip():
        # Where the model had said all, this is a call without arguments.
        raise MalformedToolCall("a tool call ends before its arguments", spent, at_limit=end is End.LIMIT)
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant, parse_float=_finite)
    except ValueError as error:
        raise MalformedToolCall("tool arguments are not JSON", spent, at_limit=end is End.LIMIT) from error
    except RecursionError as error:
        raise MalformedToolCall("tool arguments nest without end", spent) from error
    if not isinstance(value, dict):
        raise MalformedToolCall("tool arguments are not an object", spent)
    if not is_whole(json.dumps(value, ensure_ascii=False)):
        raise MalformedToolCall("tool arguments hold half of a character", spent)
    if _deeper(value, _MOST_DEPTH):
        raise MalformedToolCall(f"tool arguments nest deeper than {_MOST_DEPTH}", spent)


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    """What is larger than every number would be infinity, which JSON has no word for when it is told again."""
    value = float(text)
    if math.isinf(value):
        raise ValueError(text)
    return value


def _deeper(value: Any, levels: int) -> bool:
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(levels <= 0 or _deeper(inner, levels - 1) for inner in within if isinstance(inner, dict | list))
