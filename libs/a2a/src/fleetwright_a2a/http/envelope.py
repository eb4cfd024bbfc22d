"""Validation of request bodies before anything else reads them: strict JSON of limited size, and the JSON-RPC envelope.

Pure. It rejects non-standard JSON, duplicate names in an object, deep nesting, too many values, and batches.
"""

import json
import math
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from a2a.utils.errors import InvalidParamsError, InvalidRequestError, JSONParseError

MAX_DEPTH: Final = 32
"""Protobuf represents each JSON object by three nested messages, and its parser accepts at most 100 levels."""
MAX_VALUES: Final = 10_000
"""A value costs about a thousand times as much memory and time as a character of a text."""


def parse(body: bytes) -> Any:
    """Parse and check a body. Raises: JSONParseError."""
    try:
        value = json.loads(body.decode(), parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_object)
    except RecursionError:
        raise JSONParseError(f"JSON is nested deeper than {MAX_DEPTH}.") from None
    except ValueError:
        raise JSONParseError("The body is not JSON.") from None
    # A body with fewer brackets than the limit cannot be nested too deeply, so most bodies skip the full check.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
        raise JSONParseError(f"JSON is nested deeper than {MAX_DEPTH}.")
    if body.count(b",") + body.count(b":") > MAX_VALUES and _values(value) > MAX_VALUES:
        raise JSONParseError(f"JSON holds more than {MAX_VALUES} values.")
    if b"\\ud" in body.lower():
        _refuse_half_characters(value)
    return value


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Reject duplicate names: parsers disagree on which value counts, so a checked value might not be the used one."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise JSONParseError("An object has the same name twice.")
    return found


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _finite(text: str) -> float:
    """Reject numbers that overflow to infinity, because JSON cannot represent them in a response."""
    value = float(text)
    if math.isinf(value):
        raise JSONParseError("A number is too large.")
    return value


def _values(value: Any) -> int:
    """Return the number of values, including nested ones; the depth is already checked."""
    if isinstance(value, dict):
        return 1 + sum(map(_values, value.values()))
    return 1 + sum(map(_values, value)) if isinstance(value, list) else 1


def _deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _refuse_half_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise JSONParseError("A string holds half of a surrogate pair.") from None


RequestId = str | int | None


@dataclass(frozen=True, slots=True)
class Envelope:
    """A JSON-RPC call."""

    id: RequestId
    method: str
    params: dict[str, Any]


def opened(call: Any) -> Envelope:
    """Return the JSON-RPC call of a parsed body. Raises: InvalidRequestError, InvalidParamsError."""
    if isinstance(call, list):
        raise InvalidRequestError("Batch requests are not supported")
    if not isinstance(call, dict):
        raise InvalidRequestError("The request must be a JSON object")
    if call.get("jsonrpc") != "2.0":
        raise InvalidRequestError("jsonrpc must be exactly '2.0'")
    if not _is_id(call.get("id")):
        raise InvalidRequestError("id must be a string, an integer or null")
    method = call.get("method")
    if not isinstance(method, str) or not method:
        raise InvalidRequestError("method must be a string")
    params = call.get("params", {})
    if not isinstance(params, dict):
        raise InvalidParamsError("params must be an object")
    return Envelope(call.get("id"), method, params)


def id_of(call: Any) -> RequestId:
    """Return the id for an error response to an invalid call; None if the id is invalid too."""
    found = call.get("id") if isinstance(call, dict) else None
    return found if _is_id(found) else None


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))
