"""The HTTP servers of the process: two ports, and a graceful shutdown that drains the tasks before it closes them.

The library for server-sent events closes its streams as soon as the HTTP server handles a signal. The HTTP server
therefore exits only after all tasks have stopped and all streams have sent their last event.
"""

import asyncio
import logging
import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from types import FrameType
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from fleetwright_a2a.http.server_config import http_config
from fleetwright_agent.process.application import Application
from fleetwright_agent.server import gc_tuning

_logger = logging.getLogger(__name__)
_CLOSING_SECONDS: Final = 5
_LISTENING_SECONDS: Final = 0.2


class _Door(uvicorn.Server):
    """An HTTP server that does not stop on a signal. Instead, it sets the event `leaving`, if there is one."""

    def __init__(self, app: ASGIApp, leaving: asyncio.Event | None = None) -> None:
        super().__init__(http_config(app, drain_seconds=_CLOSING_SECONDS))
        self._leaving = leaving
        self._loop = asyncio.get_running_loop()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        if self._leaving is None:
            yield
            return
        with super().capture_signals():
            yield

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:  # noqa: ARG002 - the signature of a signal handler
        if self._leaving is None:
            return
        if self._leaving.is_set():
            # A second signal forces an immediate exit.
            self.should_exit = self.force_exit = True
        self._loop.call_soon_threadsafe(self._leaving.set)


class _Backstage:
    """The operations port in its own thread, so that probes get answers while the agent's event loop is blocked."""

    def __init__(self, app: Application, listener: socket.socket) -> None:
        self._app = app
        self._listener = listener
        self._leaving = threading.Event()

    def run(self) -> None:
        """Serve until `leave` is called."""
        asyncio.run(self._serve())

    def leave(self) -> None:
        self._leaving.set()

    async def _serve(self) -> None:
        door = _Door(self._app.ops)
        serving = asyncio.ensure_future(door.serve(sockets=[self._listener]))
        while not (self._leaving.is_set() or serving.done()):
            self._app.watchdog.listen()
            await asyncio.wait({serving}, timeout=_LISTENING_SECONDS)
        door.should_exit = True
        await serving


async def serve(app: Application, *, a2a: socket.socket, ops: socket.socket) -> None:
    """Serve until a signal arrives, then drain the tasks and close the application."""
    leaving = asyncio.Event()
    front, back = _Door(app.a2a, leaving), _Backstage(app, ops)
    serving = asyncio.ensure_future(front.serve(sockets=[a2a]))
    watching = asyncio.ensure_future(asyncio.to_thread(back.run))
    await app.start()
    gc_tuning.settle()
    _logger.info(
        "serving", extra={"a2aPort": a2a.getsockname()[1], "opsPort": ops.getsockname()[1], "reason": app.not_ready()}
    )
    asked = asyncio.ensure_future(leaving.wait())
    await asyncio.wait({asked, serving, watching}, return_when=asyncio.FIRST_COMPLETED)
    if asked.done():
        draining = asyncio.ensure_future(app.drain())
        # Only a second signal makes the A2A server stop before the drain is complete.
        await asyncio.wait({draining, serving}, return_when=asyncio.FIRST_COMPLETED)
        if draining.done():
            draining.result()
        draining.cancel()
    front.should_exit = True
    await serving
    back.leave()
    await watching
    asked.cancel()
    await app.aclose()
    _logger.info("closed")
