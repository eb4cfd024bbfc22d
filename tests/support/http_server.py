"""HTTP servers of tests, for any ASGI application, on loopback.

uvicorn looks for its end every tenth of a second and then waits for another tenth. With a thousand tests that start a
server, this took minutes, so the server of the tests ends at once.
"""

import asyncio
import socket
from collections.abc import AsyncIterator, Generator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from threading import Thread
from typing import Any

import uvicorn
from tests.support.waiting import await_until, wait_until

_TICK_SECONDS = 0.1
_CLOSING_SECONDS = 0.005


class PromptServer(uvicorn.Server):
    """uvicorn's server, which ends as soon as `leave` is called and its responses are complete.

    It differs from uvicorn in four points. It binds its port when it is constructed, so the port is known before it
    serves. It leaves the signals to the tests. `leave` wakes the main loop, which uvicorn's flag does not. A shutdown
    does not sleep for 100 ms first, checks the connections every 5 ms, and waits until the listeners are closed.
    """

    def __init__(self, config: uvicorn.Config, listener: socket.socket | None = None) -> None:
        super().__init__(config)
        self._listener = listener or socket.create_server(("127.0.0.1", 0), backlog=config.backlog)
        self.port: int = self._listener.getsockname()[1]
        self._loop: asyncio.AbstractEventLoop | None = None
        self._leaving = asyncio.Event()

    def leave(self) -> None:
        """Start the shutdown. Any thread may call it."""
        self.should_exit = True
        if self._loop:
            self._loop.call_soon_threadsafe(self._leaving.set)

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Leave the signals to the tests."""
        yield

    async def main_loop(self) -> None:
        self._loop = asyncio.get_running_loop()
        ticks = 0
        while not await self.on_tick(ticks):
            ticks += 1
            try:
                async with asyncio.timeout(_TICK_SECONDS):
                    await self._leaving.wait()
            except TimeoutError:
                continue

    async def serve(self, sockets: list[socket.socket] | None = None) -> None:
        await super().serve(sockets or [self._listener])

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Close idle connections, and wait for responses until the configured time has passed, as uvicorn does."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        try:
            async with asyncio.timeout(None if self.force_exit else self.config.timeout_graceful_shutdown):
                while (self.server_state.connections or self.server_state.tasks) and not self.force_exit:  # noqa: ASYNC110 - uvicorn has no event
                    await asyncio.sleep(_CLOSING_SECONDS)
        except TimeoutError:
            for task in self.server_state.tasks:
                task.cancel()
        for server in self.servers:
            await server.wait_closed()
        if not self.force_exit:
            await self.lifespan.shutdown()


def _configure(app: Any, settings: Mapping[str, Any]) -> uvicorn.Config:
    defaults = {"log_config": None, "access_log": False, "ws": "none", "timeout_graceful_shutdown": 1}
    return uvicorn.Config(app, **{**defaults, **settings})


@asynccontextmanager
async def serve_app(app: Any, listener: socket.socket | None = None, **settings: Any) -> AsyncIterator[int]:
    """Serve an ASGI application in a task, and yield its port. `settings` are those of `uvicorn.Config`."""
    async with serve_config(_configure(app, settings), listener) as server:
        yield server.port


@asynccontextmanager
async def serve_config(config: uvicorn.Config, listener: socket.socket | None = None) -> AsyncIterator[PromptServer]:
    """Serve in a task, on a port that the kernel chooses unless there is a listening socket."""
    server = PromptServer(config, listener)
    serving = asyncio.create_task(server.serve())
    try:
        await await_until(lambda: server.started or serving.done(), "the server has started")
        yield server
    finally:
        server.leave()
        await serving


@contextmanager
def serve_in_thread(app: Any, **settings: Any) -> Iterator[int]:
    """Serve an ASGI application in its own thread, and yield its port. `settings` are those of `uvicorn.Config`."""
    server = PromptServer(_configure(app, settings))
    thread = Thread(target=server.run)
    thread.start()
    try:
        wait_until(lambda: server.started or not thread.is_alive(), "the server has started", pause=0.005)
        yield server.port
    finally:
        server.leave()
        thread.join()
