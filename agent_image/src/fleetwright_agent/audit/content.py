"""The details of a call in an audit line, stored so that they can be erased without breaking the hash chain.

A line contains the arguments, the result and a salted digest of both; the salt prevents guessing them from the digest.
The hash chain covers the line without these details. The event, the caller and the time cannot be erased.
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
_ARGUMENT: Final = 500
_RESULT: Final = 200
_MARGIN: Final = 8192
"""Characters beyond the stored part that are redacted too, because a truncated secret would not be recognised."""


def with_digest(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the line. If it has erasable details, add a salt and a digest of the details."""
    # Hash the details as they will be read back, because encoding replaces characters that UTF-8 cannot represent.
    plain: dict[str, Any] = json.loads(encode(about))
    told = {key: plain[key] for key in _TOLD if key in plain}
    if not told:
        return plain
    told[_SALT] = secrets.token_hex(8)
    return {**plain, **told, _DIGEST: _digest(told)}


def encode(line: Mapping[str, Any]) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode(errors="replace")


def is_as_written(data: bytes, line: Mapping[str, Any]) -> bool:
    """Return whether the agent would write exactly these bytes for this content. It would not write a duplicate key."""
    return encode(line) == data


def chain_hash(data: bytes, line: Mapping[str, Any] | None) -> str:
    """Return the hash that the next line contains.

    The hash covers the bytes of this line. It excludes the details that an erasure may remove, but only if the bytes
    are exactly those that the agent writes for this content.
    """
    if line is not None and _DIGEST in line and is_as_written(data, line):
        data = encode(without_details(line))
    return hashlib.sha256(data).hexdigest()


def without_details(line: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in line.items() if key not in _REMOVABLE}


def is_removable(line: Mapping[str, Any]) -> bool:
    return _DIGEST in line and _SALT in line


def is_removed(line: Mapping[str, Any]) -> bool:
    return _DIGEST in line and not _REMOVABLE & line.keys()


def is_altered(line: Mapping[str, Any]) -> bool:
    """Return whether the details differ from their digest."""
    if _DIGEST not in line or is_removed(line):
        return False
    return bool(line[_DIGEST] != _digest({key: line[key] for key in (*_TOLD, _SALT) if key in line}))


def _digest(told: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()


def call_line(arguments: Mapping[str, Any], result: str) -> dict[str, Any]:
    """Return the details of a call, truncated with a margin. They are truncated to their limits after redaction."""
    return {
        "args": {key: _cut(value, _ARGUMENT + _MARGIN) for key, value in arguments.items()},
        "result_summary": result[: _RESULT + _MARGIN],
    }


def shortened(about: Mapping[str, Any]) -> dict[str, Any]:
    """Truncate each argument and the result to their limits."""
    cut = {"args": {key: _cut(value, _ARGUMENT) for key, value in about["args"].items()}} if "args" in about else {}
    result = {"result_summary": about["result_summary"][:_RESULT]} if "result_summary" in about else {}
    return {**about, **cut, **result}


def _cut(value: Any, most: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= most else f"{text[:most]}…"
