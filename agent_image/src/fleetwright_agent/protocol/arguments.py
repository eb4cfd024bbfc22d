"""The arguments of a tool call as people review them: their digest, and whether they can be shown as data. Pure.

The digest covers the canonical JSON (RFC 8785), so it does not depend on how a program writes numbers or keys.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

import rfc8785

_LARGEST: Final = 32 * 1024
"""The size in bytes up to which arguments are stored as data beside the question."""
_DEEPEST: Final = 16
"""The deepest nesting of arguments that are stored as data. Protobuf parses about thirty levels, and the question
itself uses some of them.
"""
_EXACT: Final = 2**53


def arguments_digest(arguments: Mapping[str, Any]) -> str:
    """Return the digest of the arguments as `sha256:<hex>`."""
    encoded = _canonical(arguments)
    if encoded is None:
        # The arguments have a number that JSON cannot represent, or a lone surrogate. No client can send them back.
        encoded = json.dumps(arguments, sort_keys=True, default=str).encode()
    return f"sha256:{hashlib.sha256(encoded).hexdigest()}"


def reviewable(arguments: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the arguments as data for clients, or None if they are too large or cannot be represented exactly."""
    encoded = None if _depth(arguments) > _DEEPEST else _canonical(arguments)
    return None if encoded is None or len(encoded) > _LARGEST else dict(arguments)


def canonical_size(value: Any) -> int:
    """Return the size of the canonical JSON in bytes. Raises: ValueError."""
    return len(rfc8785.dumps(value))


def with_integers(value: Any) -> Any:
    """Return the value with whole numbers as integers, because A2A messages carry every number as a double."""
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT:
        return int(value)
    if isinstance(value, Mapping):
        return {key: with_integers(inner) for key, inner in value.items()}
    return [with_integers(inner) for inner in value] if isinstance(value, list) else value


def _canonical(arguments: Mapping[str, Any]) -> bytes | None:
    try:
        return rfc8785.dumps(dict(arguments))
    except (rfc8785.CanonicalizationError, UnicodeEncodeError, RecursionError):
        return None


def _depth(value: Any) -> int:
    """Return the depth of nesting, counted up to one more than the limit."""
    depth, level = 0, [value]
    while level and depth <= _DEEPEST:
        depth += 1
        lists = [each for each in level if isinstance(each, list)]
        level = [inner for each in level if isinstance(each, Mapping) for inner in each.values()]
        level += [inner for each in lists for inner in each]
    return depth
