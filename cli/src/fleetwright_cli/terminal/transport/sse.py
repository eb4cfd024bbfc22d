"""Decodes a stream of server-sent events to JSON documents. Pure.

Lines end with a line feed only. Other separators of Unicode may occur within a JSON document.
"""

from collections.abc import Iterator
from typing import Final

_LONGEST: Final = 32 * 1024 * 1024


class EventTooLong(ValueError):  # noqa: N818 - describes the event
    """One event has more bytes than this client accepts."""


class SseDecoder:
    """Collects bytes and yields the data of each complete event."""

    def __init__(self) -> None:
        self._rest = b""
        self._data: list[bytes] = []

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Raises: EventTooLong."""
        lines = (self._rest + piece).split(b"\n")
        self._rest = lines.pop()
        if len(self._rest) > _LONGEST:
            raise EventTooLong(f"the agent sent an event of more than {_LONGEST} bytes")
        for line in map(_without_return, lines):
            if line.startswith(b"data:"):
                self._data.append(line[5:].removeprefix(b" "))
            elif not line and self._data:
                yield b"\n".join(self._data)
                self._data = []


def _without_return(line: bytes) -> bytes:
    return line.removesuffix(b"\r")
