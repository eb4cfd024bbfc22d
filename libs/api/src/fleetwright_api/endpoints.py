"""The addresses of agents and MCP servers: by cluster DNS, or at overridden addresses outside of the cluster."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api import names

DEFAULT_MCP_PORT = 8000
DEFAULT_MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Overridden addresses by `<namespace>/<name>`. Agents and servers without one use cluster DNS."""

    cluster_domain: str = "cluster.local"
    agents: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)

    def agent(self, namespace: str, name: str) -> str:
        """Return the address of an agent, without a path."""
        elsewhere = self.agents.get(names.qualified(namespace, name))
        return elsewhere or names.agent_url(namespace, name, cluster_domain=self.cluster_domain)

    def server(self, server: Mapping[str, Any]) -> str:
        """Return the streamable-HTTP address of an McpServer object."""
        namespace, name = server["metadata"]["namespace"], server["metadata"]["name"]
        if elsewhere := self.servers.get(names.qualified(namespace, name)):
            return elsewhere
        if remote := server["spec"].get("remote"):
            return str(remote["url"])
        workload = server["spec"]["workload"]
        return names.mcp_workload_url(
            namespace,
            name,
            cluster_domain=self.cluster_domain,
            port=workload.get("port", DEFAULT_MCP_PORT),
            path=workload.get("path", DEFAULT_MCP_PATH),
        )
