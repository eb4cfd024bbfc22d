"""One session with an MCP server, in a separate asyncio task, so that its failure cannot cancel a caller's task.

Callers submit requests and wait on futures. This module does not decide whether a request is repeated.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import anyio
from mcp import ClientSession
from mcp.client.session import MessageHandlerFnT
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import McpError
from mcp.types import (
    CallToolRequest,
    CancelledNotification,
    CancelledNotificationParams,
    ClientNotification,
    InitializeResult,
    ServerNotification,
    ToolListChangedNotification,
)

from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import McpServer, Transport
from fleetwright_agent.tools.mcp.wire import Arrival, McpTransport, McpUnreachable, http_client, wire_of

_NOTICE_SECONDS = 1.0
# The MCP client reports a closed connection and an unknown session as protocol errors with these messages. After
# "Session terminated", the server cannot have processed the request.
_CLOSED, _UNKNOWN_SESSION = "Connection closed", "Session terminated"
T = TypeVar("T")
Work = Callable[[ClientSession], Awaitable[T]]


@dataclass(eq=False, slots=True)
class _Job:
    work: Work[Any]
    answer: "asyncio.Future[Any]" = field(default_factory=lambda: asyncio.get_running_loop().create_future())
    begun: bool = False


@asynccontextmanager
async def open_session(
    server: McpServer,
    layout: Layout,
    *,
    seconds: float,
    on_change: Callable[[], None] = lambda: None,
    denied: tuple[Network, ...] = (),
) -> AsyncIterator[tuple[ClientSession, InitializeResult]]:
    """Yield a session after the handshake, and the server's answer to `initialize`.

    Raises:
        McpUnreachable: No session was established, and no request was sent.
    """
    wire = wire_of(server, layout, denied=denied)

    async def heard(message: object) -> None:
        if isinstance(message, ServerNotification) and isinstance(message.root, ToolListChangedNotification):
            on_change()

    begun = False
    try:
        async with _streams(server, wire) as (read, write), _Session(read, write, wire=wire, heard=heard) as session:
            async with asyncio.timeout(seconds):
                hello = await session.initialize()
            begun = True
            yield session, hello
    except BaseException as error:
        if begun or isinstance(error, asyncio.CancelledError):
            raise
        raise McpUnreachable(_reason(error, wire, seconds), arrival=Arrival.NONE) from error


def _reason(error: BaseException, wire: McpTransport, seconds: float) -> str:
    if isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        return _reason(error.exceptions[0], wire, seconds)
    if isinstance(error, TimeoutError):
        return f"did not answer within {seconds:g} s"
    if isinstance(error, McpError):
        return f"refused the handshake: {error.error.message[:300]}"
    return str(error) if isinstance(error, McpUnreachable) else wire.trouble or "does not speak MCP"


@asynccontextmanager
async def _streams(server: McpServer, wire: McpTransport) -> AsyncIterator[tuple[Any, Any]]:
    if server.transport is Transport.SSE:
        async with sse_client(server.url, httpx_client_factory=lambda *_, **__: http_client(wire)) as (read, write):
            yield read, write
        return
    async with (
        http_client(wire) as client,
        streamable_http_client(server.url, http_client=client) as (read, write, _),
    ):
        yield read, write


class SessionActor:
    """Owns one session from opening to close. When `ended` is true, another actor may be started."""

    def __init__(
        self,
        server: McpServer,
        layout: Layout,
        *,
        seconds: float,
        on_change: Callable[[], None],
        denied: tuple[Network, ...],
    ) -> None:
        session = open_session(server, layout, seconds=seconds, on_change=on_change, denied=denied)
        self._inbox: asyncio.Queue[_Job] = asyncio.Queue()
        self._reason: McpUnreachable | None = None
        self._task = asyncio.create_task(self._live(session))

    @property
    def ended(self) -> bool:
        return self._task.done()

    async def request(self, work: Work[T]) -> T:
        """Run a request in the session and return its result.

        Raises:
            McpUnreachable: The session broke; `arrival` states whether the server may have processed the request.
        """
        job = _Job(work)
        self._inbox.put_nowait(job)
        waiting: set[asyncio.Future[Any]] = {job.answer, self._task}
        try:
            await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            if job.begun:
                await asyncio.wait({job.answer})  # When the session ends, it also fails the requests that have begun.
        finally:
            answered = job.answer.done()
            job.answer.cancel()
        if not answered:
            raise self._reason or McpUnreachable("cannot be reached", arrival=Arrival.NONE)
        if isinstance(job.answer.exception(), McpUnreachable):
            self._task.cancel()
        answer: T = job.answer.result()
        return answer

    async def aclose(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    async def _live(self, opening: AbstractAsyncContextManager[tuple[ClientSession, InitializeResult]]) -> None:
        running: set[asyncio.Task[None]] = set()
        try:
            async with opening as (session, _):
                while True:
                    job = await self._inbox.get()
                    job.begun = True
                    task = asyncio.create_task(_answer(session, job))
                    running.add(task)
                    task.add_done_callback(running.discard)
        except McpUnreachable as error:
            self._reason = error
        except Exception:  # noqa: S110 - after any other failure, callers see that the session ended
            pass
        finally:
            for task in running:
                task.cancel()


class _Session(ClientSession):
    """An MCP client session that also handles lost answers and cancelled calls.

    A request fails as soon as the transport reports that no answer can arrive. If a caller cancels a tool call, the
    session notifies the server.
    """

    def __init__(self, read: Any, write: Any, *, wire: McpTransport, heard: MessageHandlerFnT) -> None:
        super().__init__(read, write, message_handler=heard)
        self._wire = wire

    async def send_request(self, request: Any, *args: Any, **options: Any) -> Any:
        identity = self._request_id  # No other code runs before the base class uses this id.
        fault = self._wire.expect(identity)
        try:
            with anyio.CancelScope() as scope:
                fault.add_done_callback(lambda done: None if done.cancelled() else scope.cancel())
                return await super().send_request(request, *args, **options)
            return fault.result()
        except asyncio.CancelledError:
            if fault.done():
                fault.result()
            if isinstance(request.root, CallToolRequest):
                await self._notify_cancelled(identity)
            raise
        finally:
            self._wire.forget(identity)

    async def _notify_cancelled(self, identity: int) -> None:
        params = CancelledNotificationParams(requestId=identity, reason="the caller gave up")
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_NOTICE_SECONDS):
                await self.send_notification(ClientNotification(CancelledNotification(params=params)))


async def _answer(session: ClientSession, job: _Job) -> None:
    call = asyncio.ensure_future(job.work(session))
    # A caller that stops waiting cancels its future. The callback then cancels the request.
    job.answer.add_done_callback(lambda done: call.cancel() if done.cancelled() else None)
    try:
        result = await call
    except McpError as error:
        _fail(job, _break(error) or error)
    except asyncio.CancelledError:
        # The session is closing, or the caller cancelled the call. `call` may end with a more precise error.
        await asyncio.wait({call}, timeout=_NOTICE_SECONDS)
        known = call.exception() if call.done() and not call.cancelled() else None
        _fail(job, known or McpUnreachable("closed the connection"))
        raise
    except Exception as error:
        _fail(job, error)
    else:
        if not job.answer.done():
            job.answer.set_result(result)


def _break(error: McpError) -> McpUnreachable | None:
    message = error.error.message
    if message not in {_CLOSED, _UNKNOWN_SESSION}:
        return None
    arrival = Arrival.UNKNOWN if message == _CLOSED else Arrival.TURNED_AWAY
    return McpUnreachable("closed the connection", arrival=arrival)


def _fail(job: _Job, error: BaseException) -> None:
    if not job.answer.done():
        job.answer.set_exception(error)
