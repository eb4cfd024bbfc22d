"""The remote hosts that an agent declares besides its models. By default a local run does not connect to them.

Hosts are declared as `remote` of an McpServer, as the collector of `telemetry`, as the git source of a workspace, or
for its tool webfetch. Addresses of this machine do not count.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from urllib.parse import urlsplit

from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.mcp_server import McpServerSpec, McpServerView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_cli.dev.manifests import LocalFleet

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
    if spec.workspace is not None:
        if spec.workspace.source is not None:
            found["workspace.source.git"] = spec.workspace.source.git.url
        found |= {f"workspace.web.hosts[{host}]": f"https://{host}" for host in spec.workspace.web.hosts}
    return {field: url for field, url in found.items() if urlsplit(url).hostname not in _HERE}


def without_declared_hosts(spec: AgentSpec, servers: Mapping[str, McpServerSpec]) -> AgentSpec:
    """Return the spec without the parts that connect to declared hosts."""
    left_out = declared_hosts(spec, servers)
    return replace(
        spec,
        telemetry=None if "telemetry" in left_out else spec.telemetry,
        mcp_servers=tuple(use for use in spec.mcp_servers if f"mcpServers[{use.name}]" not in left_out),
        workspace=None if spec.workspace is None else _without_hosts(spec.workspace, left_out),
    )


def without_declared_hosts_of(fleet: LocalFleet) -> LocalFleet:
    """Return the fleet without the parts that connect to declared hosts."""
    servers = {name: server.spec for name, server in fleet.servers.items()}
    agents = {
        name: replace(agent, spec=without_declared_hosts(agent.spec, servers)) for name, agent in fleet.agents.items()
    }
    return replace(fleet, agents=agents)


def find_proxied_servers(spec: AgentSpec, servers: Mapping[str, McpServerSpec]) -> list[str]:
    """Return the fields of McpServers with a proxy. A local run uses none: they belong to the network of a cluster."""
    remotes = {name: server.remote for name, server in servers.items()}
    return [
        f"mcpServers[{use.name}]"
        for use in spec.mcp_servers
        if (remote := remotes.get(use.name)) is not None and remote.proxy_url is not None
    ]


def remove_proxies(fleet: LocalFleet) -> LocalFleet:
    """Return the fleet with McpServers that are called directly."""
    servers = {name: _remove_proxy(server) for name, server in fleet.servers.items()}
    return replace(fleet, servers=servers)


def _remove_proxy(server: McpServerView) -> McpServerView:
    remote = server.spec.remote
    if remote is None:
        return server
    return replace(server, spec=replace(server.spec, remote=replace(remote, proxy_url=None)))


def _without_hosts(workspace: WorkspaceSpec, left_out: Collection[str]) -> WorkspaceSpec:
    hosts = tuple(host for host in workspace.web.hosts if f"workspace.web.hosts[{host}]" not in left_out)
    source = None if "workspace.source.git" in left_out else workspace.source
    return replace(workspace, source=source, web=replace(workspace.web, hosts=hosts))
