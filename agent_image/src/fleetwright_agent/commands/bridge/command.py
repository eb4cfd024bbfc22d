"""`fleetwright-agent bridge -- COMMAND …`: serves a stdio MCP server over streamable HTTP until it gets a signal.

The command fails if the program does not exist. The number of sessions, each with its own process, is limited.
"""

import argparse
import asyncio
import logging
import os
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fleetwright_agent.config.mounted_files import ConfigurationError
from fleetwright_agent.process.sockets import EVERY, listen
from fleetwright_agent.telemetry.logs import LEVELS, configure

_CLOSING_SECONDS = 5
_IDLE_SECONDS = 1800.0


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    bridge = commands.add_parser("bridge", help="serve a stdio MCP server over streamable HTTP")
    bridge.add_argument("--host", default=EVERY, help="address to listen on (default: all, IPv6 and IPv4)")
    bridge.add_argument("--port", type=int, default=8000, help="port to listen on (default: 8000)")
    bridge.add_argument("--path", default="/mcp", help="path of the endpoint (default: /mcp)")
    bridge.add_argument("--sessions", type=int, default=32, help="limit of concurrent sessions, each with a process")
    bridge.add_argument("--log-level", choices=LEVELS, default="info")
    bridge.add_argument("program", nargs="+", metavar="COMMAND", help="the server, after --")
    bridge.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError."""
    program = options.program[0]
    if shutil.which(program) is None:
        raise ConfigurationError(f"{program!r} does not exist in this image; check spec.workload.command")
    listener = listen(options.host, options.port)
    configure(options.log_level)
    # This logger reports an error for every stream that ends together with its session.
    logging.getLogger("mcp.server.streamable_http").setLevel(logging.CRITICAL)
    asyncio.run(_serve(options, listener))


async def _serve(options: argparse.Namespace, listener: socket.socket) -> None:
    import uvicorn
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
    from starlette.applications import Starlette
    from starlette.routing import Route

    from fleetwright_a2a.http.server_config import http_config
    from fleetwright_agent.commands.bridge.host_check import HOST_VARIABLE, HostCheck
    from fleetwright_agent.commands.bridge.relay import Relay

    manager = StreamableHTTPSessionManager(
        Relay(options.program, os.environ), max_sessions=options.sessions, session_idle_timeout=_IDLE_SECONDS
    )

    @asynccontextmanager
    async def life(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    class McpEndpoint:
        async def __call__(self, scope: object, receive: object, send: object) -> None:
            await manager.handle_request(scope, receive, send)  # type: ignore[arg-type]

    endpoint = HostCheck(McpEndpoint(), listens_on=options.host, name=os.environ.get(HOST_VARIABLE, ""))
    app = Starlette(routes=[Route(options.path, endpoint)], lifespan=life)
    server = uvicorn.Server(http_config(app, drain_seconds=_CLOSING_SECONDS, lifespan="on"))

    def leave() -> None:
        server.should_exit = True

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, leave)
    # The public method `serve` would raise the signal again after the shutdown.
    await server._serve(sockets=[listener])  # noqa: SLF001 - all public methods handle signals
