"""The addresses of agents and MCP servers: their cluster DNS names, or configured addresses outside the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetwright_api import names
from fleetwright_api.spec.mcp_server import McpServerView


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Configured addresses by `<namespace>/<name>`. Agents and servers without such an address use cluster DNS."""

    cluster_domain: str = "cluster.local"
    agents: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)
    workspaces: Mapping[str, str] = field(default_factory=dict)
    """By the agent's name."""

    def agent(self, namespace: str, name: str) -> str:
        """Return the address of an agent, without a path."""
        elsewhere = self.agents.get(names.qualified(namespace, name))
        return elsewhere or names.agent_url(namespace, name, cluster_domain=self.cluster_domain)

    def workspace(self, namespace: str, agent: str) -> str:
        """Return the address of the runner in an agent's workspace."""
        elsewhere = self.workspaces.get(names.qualified(namespace, agent))
        return elsewhere or names.workspace_url(namespace, agent, cluster_domain=self.cluster_domain)

    def server(self, server: McpServerView) -> str:
        """Return the streamable-HTTP address of an McpServer object.

        Raises:
            ValueError: The spec has neither `remote` nor `workload`. The validation of the spec reports this error.
        """
        if elsewhere := self.servers.get(names.qualified(server.namespace, server.name)):
            return elsewhere
        if server.spec.remote is not None:
            return server.spec.remote.url
        if server.spec.workload is None:
            raise ValueError(f"McpServer {server.name!r} has neither remote nor workload")
        return names.mcp_workload_url(
            server.namespace,
            server.name,
            cluster_domain=self.cluster_domain,
            port=server.spec.workload.port,
            path=server.spec.workload.path,
        )
