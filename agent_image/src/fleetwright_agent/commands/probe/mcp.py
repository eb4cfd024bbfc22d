"""`probe mcp`: reports the handshake with an MCP server and its tools, each with a digest.

The argument is the server's entry in `agent.json`, so the probe connects in the same way as the agents.
"""

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial
from ipaddress import ip_network
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import ConfigurationError, SourceUnavailable, first_fault
from fleetwright_agent.config.tools import McpServer

_SECONDS = 20.0
_PAUSE_SECONDS = 1.0
_LONGEST = 128
_COUNTED = 10_000


def declare(looks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    look = looks.add_parser("mcp", help="report the identity and the tools of an MCP server")
    look.add_argument("server", help="an entry of mcpServers of agent.json, as JSON")
    look.add_argument("--root", type=Path, default=Path("/"), help="folder of the mounted files (default: /)")
    look.add_argument("--patience", type=float, default=12.0, help="seconds in which a failed connection is retried")
    look.add_argument(
        "--denied",
        action="append",
        default=[],
        type=ip_network,
        metavar="RANGE",
        help="one of deniedRanges of agent.json; may be given several times",
    )
    look.set_defaults(look_at=probe_mcp)


async def probe_mcp(options: argparse.Namespace) -> dict[str, Any]:
    """Return what the server says about itself, and its tools.

    Raises:
        ConfigurationError: The entry of the server is invalid, or the server refuses to list its tools.
        SourceUnavailable: The server cannot be reached, or it refuses the connection. This may change.
    """
    try:
        server = McpServer.model_validate_json(options.server)
    except ValidationError as error:
        raise ConfigurationError(f"the description of the server is not valid: {first_fault(error)}") from error
    asked = partial(_look, server, Layout(root=options.root), tuple(options.denied))
    return await _patiently(asked, seconds=options.patience)


async def _patiently(look: Callable[[], Awaitable[dict[str, Any]]], *, seconds: float) -> dict[str, Any]:
    """Retry a failed connection, because a new pod's network and a starting server may need some seconds."""
    from mcp.shared.exceptions import McpError

    from fleetwright_agent.tools.mcp.wire import McpMisconfigured, McpUnreachable

    started = time.monotonic()
    while True:
        try:
            return await look()
        except McpMisconfigured as error:
            raise ConfigurationError(f"the server {error}") from error
        except McpUnreachable as error:
            if time.monotonic() - started >= seconds:
                raise SourceUnavailable(f"the server {error}") from error
        except McpError as error:
            raise ConfigurationError(f"the server refused to list its tools: {error.error.message[:300]}") from error
        await asyncio.sleep(_PAUSE_SECONDS)


async def _look(server: McpServer, layout: Layout, denied: tuple[Network, ...]) -> dict[str, Any]:
    from fleetwright_agent.tools.mcp.session import open_session
    from fleetwright_agent.tools.mcp.tool_listing import MOST_TOOLS, every_page, tool_digest, tools_digest

    async with open_session(server, layout, seconds=_SECONDS, denied=denied) as (session, hello):
        listed = await every_page(session, most=_COUNTED) if hello.capabilities.tools else []
    digests = sorted((tool.name, tool_digest(tool)) for tool in listed)
    return {
        "serverInfo": {
            "name": hello.serverInfo.name[:_LONGEST],
            "version": hello.serverInfo.version[:_LONGEST],
            "protocolVersion": str(hello.protocolVersion)[:_LONGEST],
        },
        # The list below is truncated to the number of tools that agents use, so the total is reported too.
        "offered": len(digests),
        # The protocol allows no longer name, so such a tool could not be pinned.
        "tools": [{"name": name, "digest": digest} for name, digest in digests if len(name) <= _LONGEST][:MOST_TOOLS],
        "toolsDigest": tools_digest(digests),
    }
