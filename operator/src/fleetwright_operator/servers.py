"""The pass of one McpServer: a workload becomes a Deployment, a remote one is checked as far as that is ours to do."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.checks import server_accepted, server_resolved
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.desired.addresses import parse_address
from fleetwright_operator.desired.mcpserver import server_children
from fleetwright_operator.endpoints import Endpoints
from fleetwright_operator.observe import observe_services
from fleetwright_operator.reports import Reports
from fleetwright_operator.rollout import Health, deployment_health
from fleetwright_operator.settings import Settings
from fleetwright_operator.status import Outcome, custom_status
from fleetwright_operator.violation import Violation
from fleetwright_operator.writing import prune, write_children


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPass:
    cluster: Cluster
    settings: Settings
    reports: Reports
    now: Callable[[], str]

    async def __call__(self, entry: Entry) -> bool:
        """Whether everything was written that should be."""
        users = [user.name for user in self.cluster.cache.find("uses", *entry.id)]
        outcome = await self._outcome(entry, users)
        status = custom_status(
            entry.facts["status"], outcome, generation=entry.generation, now=self.now(), rolls_out=True
        )
        await self.cluster.write_status(entry, status)
        return outcome.programmed is None

    async def _outcome(self, entry: Entry, users: list[str]) -> Outcome:
        server = entry.facts
        used_by = {"usedBy": len(users)}
        if accepted := list(server_accepted(server, self.settings)):
            return Outcome(accepted=accepted, facts=used_by)
        if resolved := self._unresolved(entry):
            return Outcome(resolved=resolved, facts=used_by)
        manifests = server_children(server, users=users, settings=self.settings)
        stopped = await write_children(self.cluster, manifests)
        if stopped is not None:
            return Outcome(resolved=(), programmed=stopped, facts=used_by)
        await prune(self.cluster, entry, manifests)
        return Outcome(
            resolved=(),
            written="Deployment and Service" if manifests else "nothing to write: the server is remote",
            health=self._health(entry, users),
            facts={**used_by, "url": Endpoints(cluster_domain=self.settings.cluster_domain).server(server)},
        )

    def _unresolved(self, entry: Entry) -> list[Violation]:
        remote: dict[str, Any] | None = entry.facts["spec"].get("remote")
        if remote is None:
            return []
        domain = self.settings.cluster_domain
        address = parse_address(remote["url"], namespace=entry.namespace, cluster_domain=domain)
        services = observe_services(self.cluster.cache, [address])
        return list(server_resolved(entry.facts, services, self.settings))

    def _health(self, entry: Entry, users: list[str]) -> Health:
        if "remote" in entry.facts["spec"]:
            return self._reported(entry, users)
        cache = self.cluster.cache
        deployment = cache.get("Deployment", entry.namespace, names.mcp_workload(entry.name))
        pods = [child for child in cache.find("child-of", *entry.id) if child.kind == "Pod"]
        return deployment_health(deployment, pods, revision=None)

    def _reported(self, entry: Entry, users: list[str]) -> Health:
        """Only agents talk to a remote server; the worst that one of them says counts."""
        said = {user: self.reports.of(entry.namespace, user).get(entry.name) for user in users}
        for user, why in sorted(said.items()):
            if why:
                return Health(False, "Unreachable", f"agent {user!r} cannot reach it: {why}")
        if any(why == "" for why in said.values()):
            return Health(True, "Reached", "")
        return Health(None, "NotObserved", "no running agent has said yet whether it can be reached")
