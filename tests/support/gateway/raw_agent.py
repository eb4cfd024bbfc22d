"""An agent whose bytes a test writes, and a caller that a test plays, for tests of the forwarder."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from starlette.types import Message

from fleetwright_gateway.process.sockets import listen
from fleetwright_gateway.proxy.forwarder import OutboundRequest

Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@asynccontextmanager
async def serving_agent(answer: Answer) -> AsyncIterator[OutboundRequest]:
    """Yield a request to an agent that answers as given."""
    listener = listen(0, host="127.0.0.1")
    server = await asyncio.start_server(answer, sock=listener)
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/a2a"
    try:
        yield OutboundRequest(method="POST", url=url, headers=(), body=b"{}", idle_seconds=30)
    finally:
        server.close()


async def stay_connected() -> Message:
    """Wait as a caller does that stays."""
    await asyncio.Event().wait()
    raise AssertionError("the caller does not leave")
