"""The last reports that running agents gave on :7871/status.

Code in `manager/` reads that address. The operator opens no connection to an address from a spec, so it knows an
agent's remote MCP servers only from these reports and from probe pods.
"""

from collections.abc import Callable, Mapping

from fleetwright_operator.status.agent_report import AgentReport

CARD_PATIENCE = 90
"""Seconds after a card update in which a report may still show the old card.

The kubelet may take a minute to update the file.
"""


class AgentReports:
    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._reports: dict[tuple[str, str], tuple[AgentReport, int]] = {}
        self._wanted: dict[tuple[str, str], tuple[str, int]] = {}
        self._refreshed: dict[tuple[str, str], int] = {}

    @property
    def now(self) -> int:
        return self._now()

    def get(self, namespace: str, agent: str) -> AgentReport | None:
        """Return the last report, or None if this operator process has not read the agent yet."""
        found = self._reports.get((namespace, agent))
        return found[0] if found else None

    def connection_errors(self, namespace: str, agent: str) -> Mapping[str, str]:
        """Return the connection error of each McpServer of the agent; empty if the agent can reach the server."""
        report = self.get(namespace, agent)
        return {name: server.unreachable for name, server in report.servers.items()} if report else {}

    def put(self, namespace: str, agent: str, report: AgentReport) -> set[str]:
        """Store a report, and return the servers whose reachability changed."""
        before = self.connection_errors(namespace, agent)
        self._reports[namespace, agent] = (report, self._now())
        after = self.connection_errors(namespace, agent)
        return {server for server in {*before, *after} if before.get(server) != after.get(server)}

    def serves_another_card(self, namespace: str, agent: str, *, wanted: str) -> bool:
        """Return whether the last report names another card, although enough time has passed since the card was
        updated.
        """
        now = self._now()
        if self._wanted.get((namespace, agent), ("", 0))[0] != wanted:
            self._wanted[namespace, agent] = (wanted, now)
        since = self._wanted[namespace, agent][1]
        report, read = self._reports.get((namespace, agent), (AgentReport(), 0))
        return bool(report.card_digest) and report.card_digest != wanted and read - since >= CARD_PATIENCE

    def may_refresh(self, namespace: str, agent: str, *, seconds: int) -> bool:
        """Return whether the last refresh is at least this many seconds ago. If so, record a refresh now."""
        now = self._now()
        if now - self._refreshed.get((namespace, agent), -seconds) < seconds:
            return False
        self._refreshed[namespace, agent] = now
        return True

    def forget(self, namespace: str, agent: str) -> None:
        self._refreshed.pop((namespace, agent), None)
        self._reports.pop((namespace, agent), None)
        self._wanted.pop((namespace, agent), None)
