"""The head and the tail of a stream of output, in constant memory. Pure."""

from __future__ import annotations

import codecs

_LONGEST_CHARACTER = 4


class OutputWindow:
    """Decodes UTF-8 output: `add` returns the text of the head at once, and `finish` the tail at the end."""

    def __init__(self, head: int, tail: int) -> None:
        """Args: `head` and `tail` are numbers of characters."""
        self._room = head
        self._tail_limit = tail
        self._decoder = _decoder()
        self._pending = b""
        """The start of a character that is not complete yet."""
        self._tail = bytearray()
        self._head_bytes = 0
        self._dropped = 0
        self.total = 0
        """The number of bytes so far."""

    def add(self, data: bytes) -> str:
        self.total += len(data)
        if not self._room:
            self._keep(data)
            return ""
        text = self._decoder.decode(data)
        if len(text) <= self._room:
            self._room -= len(text)
            self._pending = self._decoder.getstate()[0]
            self._head_bytes = self.total - len(self._pending)
            return text
        raw = self._pending + data
        split = _split(raw, self._room)
        shown = text[: self._room]
        self._head_bytes = self.total - len(raw) + split
        self._room = 0
        self._keep(raw[split:])
        return shown

    def finish(self) -> tuple[int, str]:
        """Return how many bytes are omitted between head and tail, and the text of the tail."""
        if self._room:
            return 0, self._pending.decode(errors="replace")
        tail = bytes(self._tail)
        while self._dropped and tail and tail[0] & 0xC0 == 0x80:
            tail = tail[1:]  # the rest of a character that was cut
        text = tail.decode(errors="replace")
        if len(text) <= self._tail_limit:
            return self.total - self._head_bytes - len(tail), text
        text = text[-self._tail_limit :]
        return self.total - self._head_bytes - len(text.encode()), text

    def _keep(self, data: bytes) -> None:
        self._tail += data
        most = _LONGEST_CHARACTER * self._tail_limit
        if len(self._tail) > 2 * most:
            self._dropped += len(self._tail) - most
            del self._tail[:-most]


def _decoder() -> codecs.IncrementalDecoder:
    return codecs.getincrementaldecoder("utf-8")(errors="replace")


def _split(raw: bytes, characters: int) -> int:
    """Return the number of bytes that decode to this many characters."""
    low, high = 0, len(raw)
    while low < high:
        middle = (low + high) // 2
        if len(_decoder().decode(raw[:middle])) < characters:
            low = middle + 1
        else:
            high = middle
    return low
