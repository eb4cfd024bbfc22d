"""The shutdown of the gateway's HTTP servers."""

import asyncio
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from tests.support.waiting import within

from fleetwright_gateway.process.serving import serve
from fleetwright_gateway.process.sockets import listen

pytestmark = pytest.mark.process
_HEADERS = [(b"content-type", b"text/event-stream")]


async def _endless(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
    while True:
        await send({"type": "http.response.body", "body": b"data: 1\n\n", "more_body": True})
        await asyncio.sleep(0.01)


async def test_stream_cut_by_the_drain_is_visibly_incomplete(caplog: pytest.LogCaptureFixture) -> None:
    """The reader must see that the stream was cut. The log has no traceback, because the cut is no error."""
    traffic, ops, leaving = listen(0, host="127.0.0.1"), listen(0, host="127.0.0.1"), asyncio.Event()
    sockets: dict[str, Any] = {"traffic_socket": traffic, "ops_socket": ops}
    serving = asyncio.ensure_future(serve(_endless, _endless, **sockets, drain_seconds=0, leaving=leaving))
    reader, writer = await asyncio.open_connection("127.0.0.1", traffic.getsockname()[1])
    writer.write(b"GET / HTTP/1.1\r\nHost: gateway\r\n\r\n")
    async with within("the stream and the server end"):
        await reader.readuntil(b"data: 1")
        leaving.set()
        rest = await reader.read()
        await serving
    writer.close()
    assert not rest.endswith(b"0\r\n\r\n"), "a cut stream has no last chunk"
    assert [record.message for record in caplog.records if record.exc_info] == []
