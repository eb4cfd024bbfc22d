"""The reconciler of an McpServer: creates the Deployment of a workload, and probes the tools of any server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.api.endpoints import Endpoints
from fleetwright_operator.api.violation import Violation
from fleetwright_operator.apply.child_writer import is_refusal, prune, write_children
from fleetwright_operator.build.config.tool_access import credential_keys, pinned_list
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.kube.cached_object import CachedObject
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.observe.observation import ObservedServer, observe_server
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.rollout.probe_result import Answer, ProbePending, ProbeReport
from fleetwright_operator.rollout.probe_runner import ask, clear
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.tool_discovery import (
    answered,
    discovered,
    discovery_health,
    has_failed,
    pending_health,
)
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth, deployment_health
from fleetwright_operator.validate.mcp_server_checks import (
    environment_exists,
    secrets_exist,
    server_accepted,
    server_resolved,
)


@dataclass(frozen=True, slots=True)
class _Look:
    """The result of tool discovery in this reconcile. Without an answer, no probe was started."""

    answer: Answer | None = None
    probe: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kept(self) -> str:
        return self.probe if isinstance(self.answer, ProbePending) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServerReconciler:
    cluster: Cluster
    settings: Settings
    reports: AgentReports
    now: Callable[[], str]
    rounds: ProbeSchedule

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        """Reconcile one McpServer. It is settled once everything was written and the server answered a probe."""
        seen = observe_server(self.cluster.cache, entry, settings=self.settings)
        outcome, look = await self._outcome(seen)
        status = custom_status(
            entry.facts["status"], outcome, generation=entry.generation, now=self.now(), rolls_out=True
        )
        await self.cluster.write_status(entry, status)
        # Delete the pod only after the status stores its answer; until then the pod is the only copy.
        if look.answer is not None and not isinstance(look.answer, ProbePending):
            self.rounds.answered(entry.id, failed=not isinstance(look.answer, ProbeReport))
        await clear(self.cluster, entry, keep=look.kept)
        stopped = outcome.programmed
        return ReconcileResult(settled=stopped is None and not has_failed(status), refused=is_refusal(stopped))

    async def _outcome(self, seen: ObservedServer) -> tuple[StageOutcomes, _Look]:
        server = seen.server
        used_by = {"usedBy": len(seen.users)}
        if accepted := list(server_accepted(server, self.settings)):
            return StageOutcomes(accepted=accepted, facts=used_by), _Look()
        if resolved := self._unresolved(seen):
            return StageOutcomes(resolved=resolved, facts=used_by), _Look()
        manifests = server_children(
            server, users=seen.users, environment=seen.environment_versions, settings=self.settings
        )
        stopped = await write_children(self.cluster, manifests)
        if stopped is not None:
            return StageOutcomes(resolved=(), programmed=stopped, facts=used_by), _Look()
        await prune(self.cluster, seen.entry, manifests)
        process = self._process_health(seen)
        look = await self._look(seen) if process is None else _Look()
        url = Endpoints(cluster_domain=self.settings.cluster_domain).server(server)
        return StageOutcomes(
            resolved=(),
            written="Deployment and Service" if manifests else "nothing to write: the server is remote",
            health=process or self._health(seen, look),
            facts={**used_by, "url": url, **look.facts},
        ), look

    def _unresolved(self, seen: ObservedServer) -> list[Violation]:
        return [
            *server_resolved(seen.server, seen.services, self.settings),
            *secrets_exist(credential_keys(seen.server), seen.secrets),
            *environment_exists(seen.server, seen.environment),
        ]

    def _process_health(self, seen: ObservedServer) -> WorkloadHealth | None:
        """Return why the workload's pod is unhealthy; None if it is healthy or the server is remote."""
        if "remote" in seen.server["spec"]:
            return None
        deployment = self.cluster.cache.get("Deployment", seen.entry.namespace, names.mcp_workload(seen.entry.name))
        health = deployment_health(deployment, seen.pods, revision=None)
        return None if health.status else health

    async def _look(self, seen: ObservedServer) -> _Look:
        """Start a probe if the answer is unknown or out of date."""
        server, status = seen.server, seen.server["status"]
        probe = server_probe(server, about=seen.answer_depends_on, services=seen.services, settings=self.settings)
        kept = {"pinned": pinned_list(server)}
        due = self.rounds.is_due(seen.entry.id, failed=has_failed(status))
        if answered(status, probe.question) and not due:
            return _Look(facts=kept)
        answer = await ask(self.cluster, probe)
        facts = kept if isinstance(answer, ProbePending) else discovered(server, probe.question, answer)
        return _Look(answer, probe.name, facts)

    def _health(self, seen: ObservedServer, look: _Look) -> WorkloadHealth:
        waiting = pending_health(seen.server, look.answer) if isinstance(look.answer, ProbePending) else None
        looked_at = {**seen.server, "status": {**seen.server["status"], **look.facts}}
        return self._missed(seen) or waiting or discovery_health(looked_at)

    def _missed(self, seen: ObservedServer) -> WorkloadHealth | None:
        """Return the error that a running agent reports for a remote server. Agents are read once a minute."""
        if "remote" not in seen.server["spec"]:
            return None
        for user in sorted(seen.users):
            if why := self.reports.of(seen.entry.namespace, user).get(seen.entry.name):
                return WorkloadHealth(False, "Unreachable", f"agent {user!r} cannot reach it: {why}")
        return None
