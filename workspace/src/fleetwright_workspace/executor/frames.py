"""The protocol between runner and executor on the Unix socket.

The runner sends one line of JSON. The executor answers with frames: one byte for the kind, four for the length, and the
content. Both sides bound what they accept. The runner trusts nothing in an answer.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

STDOUT = b"o"
STDERR = b"e"
HEARTBEAT = b"h"
END = b"x"
KINDS = (STDOUT, STDERR, HEARTBEAT, END)
LARGEST_FRAME = 1 << 16
LARGEST_REQUEST = 2 * 1024 * 1024
HEARTBEAT_SECONDS = 5.0
GRACE_SECONDS = 2.0
_HEADER = struct.Struct(">cI")


class FrameError(Exception):
    """The peer does not speak the protocol."""


def frame(kind: bytes, content: bytes = b"") -> bytes:
    return _HEADER.pack(kind, len(content)) + content


class FrameReader:
    """Splits received bytes into frames."""

    def __init__(self) -> None:
        self._received = bytearray()

    def add(self, data: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Yield the complete frames.

        Raises:
            FrameError: A frame has an unknown kind or is too large.
        """
        self._received += data
        position = 0
        while len(self._received) - position >= _HEADER.size:
            kind, length = _HEADER.unpack_from(self._received, position)
            if kind not in KINDS or length > LARGEST_FRAME:
                raise FrameError("the executor sent bytes that are not a frame")
            end = position + _HEADER.size + length
            if len(self._received) < end:
                break
            yield kind, bytes(self._received[position + _HEADER.size : end])
            position = end
        del self._received[:position]
