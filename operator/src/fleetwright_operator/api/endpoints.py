"""Where agents, MCP servers and models are reached: by cluster DNS, or wherever somebody runs them instead."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator.api import names

DEFAULT_MCP_PORT = 8000
DEFAULT_MCP_PATH = "/mcp"


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoints:
    """Keys of the mappings are `<namespace>/<name>`; what they do not hold has its address in the cluster."""

    cluster_domain: str = "cluster.local"
    agents: Mapping[str, str] = field(default_factory=dict)
    servers: Mapping[str, str] = field(default_factory=dict)

    def agent(self, namespace: str, name: str) -> str:
        """The address of an agent, without a path."""
        elsewhere = self.agents.get(names.qualified(namespace, name))
        return elsewhere or names.agent_url(namespace, name, cluster_domain=self.cluster_domain)

    def server(self, server: Mapping[str, Any]) -> str:
        """The streamable-HTTP address of an McpServer object."""
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
