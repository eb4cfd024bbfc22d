"""The lower bound: a minimal proxy with the HTTP server, the HTTP client and the settings of the gateway.

python -m tests.bench.gateway.pass_through PORT AGENT-PORT
"""

import sys

import aiohttp
import uvicorn
import uvloop
from starlette.types import Receive, Scope, Send
from yarl import URL

from fleetwright_a2a.http.timeouts import TimeoutProtocol
from fleetwright_gateway.process.serving import collect_less_often, freeze_objects
from fleetwright_gateway.proxy.forwarder import client_session, timeout
from fleetwright_gateway.settings import GatewaySettings

_TO_AGENT = frozenset({b"authorization", b"a2a-version", b"content-type"})
_OF_ONE_CONNECTION = frozenset({b"connection", b"date", b"transfer-encoding"})


class PassThrough:
    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        settings = GatewaySettings(url="http://127.0.0.1")
        self._timeout = timeout(settings.connect_seconds, settings.idle_seconds)
        self._session = session
        self._url = URL(url, encoded=True)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] == "/healthz":
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        body, more = bytearray(), True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        headers = [(name.decode(), value.decode()) for name, value in scope["headers"] if name in _TO_AGENT]
        async with self._session.request(
            scope["method"],
            self._url,
            headers=headers,
            data=bytes(body),
            allow_redirects=False,
            timeout=self._timeout,
        ) as answer:
            passed = [each for each in answer.raw_headers if each[0].lower() not in _OF_ONE_CONNECTION]
            await send({"type": "http.response.start", "status": answer.status, "headers": passed})
            more = True
            while more:
                piece = await answer.content.readany()
                more = not answer.content.at_eof()
                await send({"type": "http.response.body", "body": piece, "more_body": more})


async def _main(port: int, agent_port: int) -> None:
    async with client_session() as session:
        app = PassThrough(session, f"http://127.0.0.1:{agent_port}/a2a")
        config = uvicorn.Config(
            app, port=port, http=TimeoutProtocol, ws="none", lifespan="off", log_config=None, access_log=False
        )
        collect_less_often()
        freeze_objects()
        await uvicorn.Server(config).serve()


if __name__ == "__main__":
    uvloop.run(_main(*map(int, sys.argv[1:3])))
