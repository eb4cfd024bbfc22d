"""Bounds the connections of the server. A client without a valid token cannot keep other clients away.

Commands run in the same pod and can connect to the runner. Connections that have not shown a valid token yet share a
few places. If all of these are taken, a new connection replaces the oldest one.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

MOST_TRUSTED = 64
MOST_UNKNOWN = 16
MOST_BODY_BYTES = 64 * 1024 * 1024


class ConnectionPool:
    def __init__(self, *, most_trusted: int = MOST_TRUSTED, most_unknown: int = MOST_UNKNOWN) -> None:
        self._most_unknown = most_unknown
        self._trusted = threading.BoundedSemaphore(most_trusted)
        # A replaced connection needs its thread for a moment longer.
        self._threads = threading.BoundedSemaphore(2 * most_unknown)
        self._lock = threading.Lock()
        self._unknown: dict[socket.socket, None] = {}

    def wait(self) -> None:
        """Wait until a further connection may be accepted. Call `enter` or `cancel` afterwards."""
        self._threads.acquire()

    def cancel(self) -> None:
        self._threads.release()

    def enter(self, stream: socket.socket) -> None:
        """Add a connection without a valid token."""
        with self._lock:
            self._unknown[stream] = None
            oldest = next(iter(self._unknown)) if len(self._unknown) > self._most_unknown else None
            if oldest is not None:
                del self._unknown[oldest]
                _close(oldest)

    def trust(self, stream: socket.socket) -> None:
        """Give the connection a place of its own, because its client has sent a valid token.

        Raises:
            ConnectionError: Another connection has replaced it.
        """
        with self._lock:
            if stream not in self._unknown:
                raise ConnectionError("the connection was replaced")
            del self._unknown[stream]
        self._trusted.acquire()
        self._threads.release()

    def leave(self, stream: socket.socket, *, is_trusted: bool) -> None:
        if is_trusted:
            self._trusted.release()
            return
        with self._lock:
            self._unknown.pop(stream, None)
        self._threads.release()


class BodyMemory:
    """Bounds the bytes of all request bodies that are in memory at the same time."""

    def __init__(self, most: int = MOST_BODY_BYTES) -> None:
        self._left = most
        self._changed = threading.Condition()

    @contextmanager
    def reserved(self, length: int, *, seconds: float) -> Iterator[bool]:
        """Reserve memory for a body. Yield False if too little is free within `seconds`."""
        with self._changed:
            is_free = self._changed.wait_for(lambda: self._left >= length, seconds)
            if is_free:
                self._left -= length
        try:
            yield is_free
        finally:
            if is_free:
                with self._changed:
                    self._left += length
                    self._changed.notify_all()


def _close(stream: socket.socket) -> None:
    try:
        stream.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # its thread has closed it
