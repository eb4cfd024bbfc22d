"""What running agents say of the McpServers they use: the operator opens no connection to an address from a spec.

An agent serves `{"mcpServers": [{"name", "reachable", "message"}]}` on :7871/status. This file holds what was
read last; who reads it lies in `cluster/`. Refuses anything else an agent may say.
"""

from collections.abc import Mapping
from typing import Any

_MESSAGE_LIMIT = 300
_SERVERS_LIMIT = 64

Report = Mapping[str, str]
"""By McpServer: empty when it was reached, else why not."""


class Reports:
    def __init__(self) -> None:
        self._by_agent: dict[tuple[str, str], Report] = {}

    def of(self, namespace: str, agent: str) -> Report:
        return self._by_agent.get((namespace, agent), {})

    def unreachable(self, namespace: str, agent: str) -> dict[str, str]:
        return {server: why for server, why in self.of(namespace, agent).items() if why}

    def put(self, namespace: str, agent: str, report: Report) -> set[str]:
        """The servers of which the agent says something new."""
        before = self.of(namespace, agent)
        self._by_agent[namespace, agent] = report
        return {server for server in {*before, *report} if before.get(server) != report.get(server)}

    def forget(self, namespace: str, agent: str) -> None:
        self._by_agent.pop((namespace, agent), None)


def parse_report(document: Any) -> Report:
    """An agent is code that somebody else wrote: what does not fit is left out."""
    servers = document.get("mcpServers") if isinstance(document, Mapping) else None
    if not isinstance(servers, list):
        return {}
    report: dict[str, str] = {}
    for server in servers[:_SERVERS_LIMIT]:
        if isinstance(server, Mapping) and isinstance(server.get("name"), str):
            message = str(server.get("message") or "no connection")[:_MESSAGE_LIMIT]
            report[server["name"]] = "" if server.get("reachable") is True else message
    return report
