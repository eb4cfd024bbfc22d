"""The reconciler of an McpServer: creates the Deployment of a workload, and probes the tools of any server."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_api import names
from fleetwright_api.endpoints import Endpoints
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_operator.apply.child_writer import is_refusal, prune, write_children
from fleetwright_operator.build.config.tool_access import credential_keys, pinned_list
from fleetwright_operator.build.mcp_server import server_children, server_probe
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.mcp_server import ObservedServer, observe_server
from fleetwright_operator.observe.namespace_limits import observe_limits
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.rollout.probe_result import ProbeFailure, ProbePending, ProbeResult
from fleetwright_operator.rollout.probe_runner import ProbeRunner
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.tool_discovery import (
    discovery_health,
    discovery_status,
    has_answer,
    has_failed,
    pending_health,
)
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth, deployment_health
from fleetwright_operator.status.write_loop import write_loop
from fleetwright_operator.validate.mcp_server_checks import (
    environment_exists,
    secrets_exist,
    server_accepted,
    server_resolved,
)


@dataclass(frozen=True, slots=True)
class _ProbeState:
    """The result of tool discovery in this reconcile. `answer` is None if no probe was started."""

    answer: ProbeResult | None = None
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
    schedule: ProbeSchedule
    probes: ProbeRunner

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        """Reconcile one McpServer.

        The result is settled once everything was written and the server answered a probe.
        """
        observed = observe_server(self.cluster.cache, entry, settings=self.settings)
        outcome, probe_state = await self._outcome(observed)
        outcome = replace(outcome, write_loop=write_loop(self.cluster.list_delayed_writes(entry)))
        status = custom_status(
            entry.projection["status"],
            outcome,
            generation=entry.generation,
            now=self.now(),
            rolls_out=True,
            installation=self.settings.installation,
        )
        await self.cluster.write_status(entry, status)
        # Delete the pod only after the status stores the result; until then the pod has the only copy.
        if probe_state.answer is not None and not isinstance(probe_state.answer, ProbePending):
            answer = probe_state.answer
            self.schedule.record_result(entry.id, failure=answer.reason if isinstance(answer, ProbeFailure) else "")
        await self.probes.finish_probes(entry, keep=probe_state.kept)
        stopped = outcome.programmed
        return ReconcileResult(
            settled=stopped is None and not has_failed(status),
            refused=is_refusal(stopped),
            requeue_after=self.probes.requeue_after(entry),
        )

    def forget(self, key: Key) -> None:
        self.schedule.forget(key)
        self.probes.forget(key)

    async def _outcome(self, observed: ObservedServer) -> tuple[StageOutcomes, _ProbeState]:
        server = observed.server
        used_by = {"usedBy": len(observed.users)}
        if accepted := list(server_accepted(server, self.settings)):
            return StageOutcomes(accepted=accepted, facts=used_by), _ProbeState()
        if resolved := self._unresolved(observed):
            return StageOutcomes(resolved=resolved, facts=used_by), _ProbeState()
        manifests = server_children(
            server, users=observed.users, environment=observed.environment_versions, settings=self.settings
        )
        stopped = await write_children(self.cluster, manifests)
        if stopped is not None:
            return StageOutcomes(resolved=(), programmed=stopped, facts=used_by), _ProbeState()
        await prune(self.cluster, observed.entry, manifests)
        process = self._process_health(observed)
        probe_state = await self._probe(observed) if process is None else _ProbeState()
        url = Endpoints(cluster_domain=self.settings.cluster_domain).server(server)
        return StageOutcomes(
            resolved=(),
            written="Deployment and Service" if manifests else "nothing to write: the server is remote",
            health=process or self._health(observed, probe_state),
            facts={**used_by, "url": url, **probe_state.facts},
        ), probe_state

    def _unresolved(self, observed: ObservedServer) -> list[Violation]:
        return [
            *server_resolved(observed.server, observed.services, self.settings),
            *secrets_exist(credential_keys(observed.server), observed.secrets),
            *environment_exists(observed.server, observed.environment),
        ]

    def _process_health(self, observed: ObservedServer) -> WorkloadHealth | None:
        """Return why the workload's pod is unhealthy; None if it is healthy or the server is remote."""
        if observed.server.spec.remote is not None:
            return None
        deployment = self.cluster.cache.get(
            "Deployment", observed.entry.namespace, names.mcp_workload(observed.entry.name)
        )
        health = deployment_health(deployment, observed.pods, revision=None)
        return None if health.status else health

    async def _probe(self, observed: ObservedServer) -> _ProbeState:
        """Start a probe if the result is unknown or out of date."""
        server, status = observed.server, observed.server.status
        probe = server_probe(
            server,
            about=observed.answer_depends_on,
            services=observed.services,
            limits=observe_limits(self.cluster.cache, observed.entry.namespace),
            settings=self.settings,
        )
        kept = {"pinned": pinned_list(server)}
        due = self.schedule.is_due(observed.entry.id, failed=has_failed(status))
        if has_answer(status, probe.question) and not due:
            return _ProbeState(facts=kept)
        answer = await self.probes.run_probe(probe)
        facts = kept if isinstance(answer, ProbePending) else discovery_status(server, probe.question, answer)
        return _ProbeState(answer, probe.name, facts)

    def _health(self, observed: ObservedServer, probe_state: _ProbeState) -> WorkloadHealth:
        waiting = (
            pending_health(observed.server, probe_state.answer)
            if isinstance(probe_state.answer, ProbePending)
            else None
        )
        looked_at = replace(observed.server, status={**observed.server.status, **probe_state.facts})
        return self._missed(observed) or waiting or discovery_health(looked_at)

    def _missed(self, observed: ObservedServer) -> WorkloadHealth | None:
        """Return the error that a running agent reports for a remote server. Agents are read once a minute."""
        if observed.server.spec.remote is None:
            return None
        for user in sorted(observed.users):
            if why := self.reports.connection_errors(observed.entry.namespace, user).get(observed.entry.name):
                return WorkloadHealth(False, "Unreachable", f"agent {user!r} cannot reach it: {why}")
        return None
