"""What a line of the trail tells of a call, kept so that it can be taken out and the chain still holds.

Arguments and results stand in the line beside a digest of them, salted so that nobody finds them by guessing. The chain
is over the line without them. Refuses: taking out who did what, and when.
"""

import hashlib
import json
import secrets
from collections.abc import Mapping
from typing import Any, Final

_TOLD: Final[tuple[str, ...]] = ("args", "result_summary")
_SALT: Final = "salt"
_DIGEST: Final = "content"
_REMOVABLE: Final = frozenset({*_TOLD, _SALT})


def with_digest(about: Mapping[str, Any]) -> dict[str, Any]:
    """The same, with a digest where it tells what can be taken out later."""
    # As it will be read again: what cannot be encoded is replaced before it is digested, and not after.
    plain: dict[str, Any] = json.loads(encoded(about))
    told = {key: plain[key] for key in _TOLD if key in plain}
    if not told:
        return plain
    told[_SALT] = secrets.token_hex(8)
    return {**plain, **told, _DIGEST: _digest(told)}


def encoded(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode(errors="replace")


def is_as_written(data: bytes, line: Mapping[str, Any]) -> bool:
    """Return whether the agent writes these bytes for this content. A key that stands twice makes them differ."""
    return encoded(line) == data


def chained(data: bytes, line: Mapping[str, Any] | None) -> str:
    """Return the hash that the next line holds.

    It covers the bytes as they were written. Only what an erasure may remove is left out, and only of a line whose
    bytes are otherwise exactly as written.
    """
    if line is not None and _DIGEST in line and is_as_written(data, line):
        data = encoded(without(line))
    return hashlib.sha256(data).hexdigest()


def without(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in _REMOVABLE}


def is_removable(line: Mapping[str, Any]) -> bool:
    return _DIGEST in line and _SALT in line


def is_removed(line: Mapping[str, Any]) -> bool:
    return _DIGEST in line and not _REMOVABLE & line.keys()


def is_altered(line: Mapping[str, Any]) -> bool:
    """Whether what it tells is not what was digested."""
    if _DIGEST not in line or is_removed(line):
        return False
    return bool(line[_DIGEST] != _digest({key: line[key] for key in (*_TOLD, _SALT) if key in line}))


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()
