"""The remote hosts that an agent declares besides its models. By default a local run does not connect to them.

Hosts are declared as `remote` of an McpServer, or as the collector of `telemetry`. Addresses of this machine do not
count.
"""

from collections.abc import Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.mcp_server import McpServerSpec

_HERE = ("127.0.0.1", "localhost", "::1")


def declared_hosts(spec: AgentSpec, servers: Mapping[str, McpServerSpec]) -> dict[str, str]:
    """Return the address of each declared host, by its field."""
    remotes = {name: server.remote for name, server in servers.items()}
    found = {
        f"mcpServers[{use.name}]": remote.url
        for use in spec.mcp_servers
        if (remote := remotes.get(use.name)) is not None
    }
    if spec.telemetry is not None:
        found["telemetry"] = spec.telemetry.otlp.endpoint
    return {field: url for field, url in found.items() if urlsplit(url).hostname not in _HERE}


def without_declared_hosts(spec: AgentSpec, servers: Mapping[str, McpServerSpec]) -> AgentSpec:
    """Return the spec without the parts that connect to declared hosts."""
    left_out = declared_hosts(spec, servers)
    return replace(
        spec,
        telemetry=None if "telemetry" in left_out else spec.telemetry,
        mcp_servers=tuple(use for use in spec.mcp_servers if f"mcpServers[{use.name}]" not in left_out),
    )
