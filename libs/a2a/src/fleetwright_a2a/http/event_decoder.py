"""Decodes a stream of server-sent events piece by piece, with a size limit for each event.

Only the data of events is kept; comments, event types and ids are ignored. Pure.
"""

from collections.abc import Collection, Iterator
from typing import Final

_LINE_ENDS: Final = (b"\n", b"\r")
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"


class EventTooLarge(Exception):  # noqa: N818 - an answer of the agent
    """An event exceeds the limit."""


class EventDecoder:
    """The decoder of one stream. An event that the stream does not complete is dropped, as the HTML standard says."""

    def __init__(self, *, limit: int, names: Collection[bytes] = (b"data",)) -> None:
        """Args:
        limit: The largest size of an event in bytes.
        names: The fields whose values are data.
        """
        self._limit = limit
        self._names = names
        self._size = 0
        self._line: list[bytes] = []
        """The pieces of the line that has not ended yet."""
        self._data: list[bytes] = []
        self._after_return = False
        """True if the last piece ended with a carriage return, whose line feed may follow."""
        self._is_first_line = True

    def feed(self, piece: bytes) -> Iterator[bytes]:
        """Yield the data of each event that the piece completes. Raises: EventTooLarge."""
        if not piece:
            return
        if self._after_return and piece.startswith(b"\n"):
            piece = piece[1:]
        self._after_return = piece.endswith(b"\r")
        for part in piece.splitlines(keepends=True):
            self._size += len(part)
            if self._size > self._limit:
                raise EventTooLarge
            if not part.endswith(_LINE_ENDS):
                self._line.append(part)
                continue
            line = b"".join([*self._line, part]).rstrip(b"\r\n")
            self._line.clear()
            if self._is_first_line:
                self._is_first_line = False
                line = line.removeprefix(_BYTE_ORDER_MARK)
            if line:
                self._keep(line)
                continue
            data, self._size = self._data, 0
            self._data = []
            if data:
                yield b"\n".join(data)

    def _keep(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        if name in self._names:
            self._data.append(value.removeprefix(b" "))
