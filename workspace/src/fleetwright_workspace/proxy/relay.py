"""Copies bytes between two connections in both directions, with bounded buffers and an idle timeout."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable

from fleetwright_workspace.proxy.single_request import Source

_PIECE = 16 * 1024
_RESET = struct.pack("ii", 1, 0)
"""The socket option SO_LINGER with a time of zero."""


class ConnectionRelay:
    """One tunnel. The end of one direction is passed on, and the other direction goes on."""

    def __init__(self, *, idle_seconds: float, clock: Callable[[], float]) -> None:
        """Args: the tunnel ends after `idle_seconds` without a byte in either direction."""
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._last = clock()

    async def run(
        self,
        client: tuple[Source, asyncio.StreamWriter],
        host: tuple[Source, asyncio.StreamWriter],
    ) -> None:
        """Copy until both directions have ended.

        If a direction fails, nothing arrives for too long, or this is cancelled, both connections are reset. Otherwise
        a client could mistake a truncated body for a complete one.
        """
        copies = {asyncio.ensure_future(self._copy(*ends)) for ends in ((client[0], host[1]), (host[0], client[1]))}
        try:
            running = copies
            while running:
                left = self._last + self._idle_seconds - self._clock()
                done, running = await asyncio.wait(running, timeout=max(left, 0), return_when=asyncio.FIRST_COMPLETED)
                is_idle = not done and left <= 0
                if is_idle or any(each.exception() is not None for each in done):
                    _reset(client[1])
                    _reset(host[1])
                    return
        except asyncio.CancelledError:
            _reset(client[1])
            _reset(host[1])
            raise
        finally:
            for each in copies:
                each.cancel()
            await asyncio.gather(*copies, return_exceptions=True)

    async def _copy(self, reader: Source, writer: asyncio.StreamWriter) -> None:
        while True:
            data = await reader.read(_PIECE)
            self._last = self._clock()
            if not data:
                break
            writer.write(data)
            # Nothing more is read before the other side has taken this.
            await writer.drain()
            self._last = self._clock()
        if writer.can_write_eof():
            writer.write_eof()


def _reset(writer: asyncio.StreamWriter) -> None:
    """End a connection with an error at its other end. `abort` alone ends it like a connection that is complete."""
    found = writer.get_extra_info("socket")
    if found is not None and not writer.transport.is_closing():
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    writer.transport.abort()
