"""The HTTP servers of the process: two ports, and a shutdown that lets open requests end."""

import asyncio
import gc
import logging
import signal
import socket
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

import uvicorn
from starlette.types import ASGIApp

from fleetwright_a2a.http.server_config import http_config
from fleetwright_gateway.proxy.forwarder import ResponseAborted

_logger = logging.getLogger(__name__)
_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
_COLLECTION_THRESHOLD: Final = 10_000
"""The collection threshold of the youngest generation. A request creates few reference cycles. With Python's default
of 700, collections took an eighth of the gateway's processor time.
"""


class _Server(uvicorn.Server):
    """An HTTP server that leaves signals to `serve`."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


class _ExpectedErrors(logging.Filter):
    """Drops the tracebacks of responses that were aborted on purpose, and of those that outlasted the drain."""

    def __init__(self, leaving: asyncio.Event) -> None:
        super().__init__()
        self._leaving = leaving

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, asyncio.CancelledError):
            return not self._leaving.is_set()
        return not isinstance(error, ResponseAborted)


async def serve(
    traffic: ASGIApp,
    ops: ASGIApp,
    *,
    traffic_socket: socket.socket,
    ops_socket: socket.socket,
    drain_seconds: float,
    leaving: asyncio.Event,
) -> None:
    """Serve both ports until `leaving` is set. Open requests then get `drain_seconds` to end."""
    logging.getLogger("uvicorn.error").addFilter(_ExpectedErrors(leaving))
    front = _Server(http_config(traffic, drain_seconds=drain_seconds))
    back = _Server(http_config(ops, drain_seconds=1))
    serving = asyncio.ensure_future(front.serve(sockets=[traffic_socket]))
    watching = asyncio.ensure_future(back.serve(sockets=[ops_socket]))
    asked = asyncio.ensure_future(leaving.wait())
    _logger.info("serving", extra={"port": traffic_socket.getsockname()[1], "opsPort": ops_socket.getsockname()[1]})
    await asyncio.wait({asked, serving, watching}, return_when=asyncio.FIRST_COMPLETED)
    front.should_exit = True
    await serving
    back.should_exit = True
    await watching
    asked.cancel()


def collect_less_often() -> None:
    gc.set_threshold(_COLLECTION_THRESHOLD, *gc.get_threshold()[1:])


def freeze_objects() -> None:
    """Exclude all objects that exist now, such as modules and the cache, from later collections."""
    gc.collect()
    gc.freeze()


def leave_on_signal(leaving: asyncio.Event) -> None:
    for number in _SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, leaving.set)
