"""The fields of a request: types, defaults and limits. An unknown or wrong field is refused by its name."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.file_writer import ExpectedState

LONGEST_TEXT = 4 * 1024 * 1024
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_MOST_VARIABLES = 64
_LONGEST_VALUE = 8192


class Fields:
    """Takes fields one after the other. `finish` refuses those that were not taken."""

    def __init__(self, body: bytes) -> None:
        try:
            value = json.loads(body or b"{}")
        except (ValueError, RecursionError):
            raise CallError("bad_request", "the body is not JSON in UTF-8") from None
        if not isinstance(value, dict):
            raise CallError("bad_request", "the body is not a JSON object")
        self._left: dict[str, object] = value

    def text(self, name: str, default: str | None = None, *, longest: int = LONGEST_TEXT) -> str:
        value = self._left.pop(name, default)
        if not isinstance(value, str):
            raise _wrong(name, "a string")
        if len(value) > longest:
            raise _wrong(name, f"a string of at most {longest} characters")
        return _encodable(name, value)

    def number(self, name: str, default: int | None, *, least: int, most: int) -> int:
        value = self._left.pop(name, default)
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise _wrong(name, f"a whole number from {least} to {most}")
        return value

    def seconds(self, name: str, *, most: float) -> float:
        value = self._left.pop(name, None)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value <= most:
            raise _wrong(name, f"a number of seconds above 0, at most {most:g}")
        return float(value)

    def flag(self, name: str) -> bool:
        value = self._left.pop(name, False)
        if not isinstance(value, bool):
            raise _wrong(name, "true or false")
        return value

    def texts(self, name: str, default: list[str] | None = None, *, most: int, longest: int) -> list[str]:
        value = self._left.pop(name, default)
        if not isinstance(value, list) or len(value) > most or not all(isinstance(item, str) for item in value):
            raise _wrong(name, f"a list of at most {most} strings")
        if sum(map(len, value)) > longest:
            raise _wrong(name, f"a list of at most {longest} characters together")
        return [_encodable(name, item) for item in value]

    def turn(self, longest: int) -> str:
        value = self._left.get("turn")
        if isinstance(value, int) and not isinstance(value, bool):
            self._left["turn"] = str(value)
        turn = self.text("turn", longest=longest)
        if not turn:
            raise _wrong("turn", "a string that is not empty")
        return turn

    def expected(self, *, required: bool) -> ExpectedState | None:
        value = self._left.pop("expected", None)
        if value is None and not required:
            return None
        if not isinstance(value, dict):
            raise _wrong("expected", "an object with the digest and the mtime_ns of the last read")
        digest, mtime_ns = value.get("digest", ""), value.get("mtime_ns", 0)
        if not isinstance(digest, str) or not isinstance(mtime_ns, int) or not (digest or mtime_ns):
            raise _wrong("expected", "an object with the digest and the mtime_ns of the last read")
        return ExpectedState(digest, mtime_ns)

    def environment(self) -> Mapping[str, str]:
        value = self._left.pop("environment", {})
        if not isinstance(value, dict) or len(value) > _MOST_VARIABLES:
            raise _wrong("environment", f"an object of at most {_MOST_VARIABLES} strings")
        for name, text in value.items():
            is_text = isinstance(text, str) and len(text) <= _LONGEST_VALUE and "\0" not in text
            if not _VARIABLE.fullmatch(name) or not is_text:
                raise _wrong("environment", f"an object of names and strings of at most {_LONGEST_VALUE} characters")
            _encodable("environment", text)
        return dict(value)

    def finish(self) -> None:
        if self._left:
            names = ", ".join(sorted(self._left))[:200]
            raise CallError("bad_request", f"{names}: this call has no such field; remove it")


def _encodable(name: str, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _wrong(name, "text without lone surrogates") from None
    return text


def _wrong(name: str, wanted: str) -> CallError:
    return CallError("bad_request", f"{name}: give {wanted}")
