"""The reconciler of an Agent: turns what was observed into children, credentials and a status."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.apply.child_writer import (
    is_refusal,
    prune,
    prune_history,
    prune_released,
    unseen_secrets_first,
    write_children,
)
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex
from fleetwright_operator.build.agent import AgentChildren, agent_access, agent_children
from fleetwright_operator.build.config.models import assumed, unpriced
from fleetwright_operator.build.manifest import Manifest
from fleetwright_operator.build.workspace.children import workspace_children
from fleetwright_operator.credentials.derived_tokens import token_digests
from fleetwright_operator.observe.agent import ObservedAgent, observe_agent
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.namespace_limits import observe_limits
from fleetwright_operator.reconcilers.agent_credentials import AgentCredentials, credentials_for
from fleetwright_operator.reconcilers.agent_facts import (
    agent_facts,
    agent_health,
    audit_trail,
    deployments_of,
    ingress_facts,
    list_started_servers,
    next_connection_after,
    next_startup_after,
    serving_note,
    wants_pod,
)
from fleetwright_operator.reconcilers.agent_parts import (
    agent_parts,
    plugin_names,
)
from fleetwright_operator.reconcilers.agent_sleep import AgentSleep
from fleetwright_operator.reconcilers.agent_storage import AgentStorage, FittedStorage
from fleetwright_operator.reconcilers.parent_owner import follow_parent
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.reconcilers.workspace import WorkspaceOutcome, WorkspaceStep
from fleetwright_operator.rollout import preflight_result
from fleetwright_operator.rollout.mount_refresher import MountRefresher
from fleetwright_operator.rollout.preflight_runner import PreflightRunner
from fleetwright_operator.rollout.sleep import next_step_after, stored_state
from fleetwright_operator.rollout.wake import start_pods
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.activity_status import activity_status
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.audit_record import lost_lines
from fleetwright_operator.status.budget_status import budget_status, next_reset_after
from fleetwright_operator.status.runtime_report import (
    degraded,
    drift,
    model_fails,
    over_budget,
    refused_model,
    tools_of,
)
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import ROLLOUT_PAUSED, has_ended
from fleetwright_operator.status.write_loop import write_loop
from fleetwright_operator.validate.agent_checks import ACCEPTED
from fleetwright_operator.validate.check import violations
from fleetwright_operator.validate.fleet_checks import fleet_problem, suspension_reason
from fleetwright_operator.validate.reference_checks import RESOLVED

_ASLEEP: Final = "the agent is asleep"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReconciler:
    cluster: Cluster
    settings: Settings
    reports: AgentReports
    now: Callable[[], str]
    mint: Callable[[], str]
    preflights: PreflightRunner
    asks: OpenApprovalIndex
    sleep: AgentSleep
    storage: AgentStorage
    mounts: MountRefresher
    workspaces: WorkspaceStep

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        """Reconcile one Agent, and return when to reconcile it again."""
        try:
            return await self._pass(entry)
        finally:
            self.preflights.limiter.release_reservation(entry.id)
            self.workspaces.limiter.release_reservation(entry.id)

    def forget(self, key: Key) -> None:
        self.reports.forget(key[1], key[2])
        self.asks.forget(key[1], key[2])
        self.preflights.forget(key)
        self.storage.forget(key)
        self.mounts.forget(key)
        self.workspaces.forget(key)

    async def _pass(self, entry: CachedObject) -> ReconcileResult:
        observed = observe_agent(
            self.cluster.cache,
            entry,
            settings=self.settings,
            report=self.reports.get(entry.namespace, entry.name),
        )
        accepted = list(observed.agent.problems) or violations(ACCEPTED, observed, self.settings)
        resolved = None if accepted else violations(RESOLVED, observed, self.settings)
        now = self.now()
        held = credentials_for(observed, settings=self.settings, now=now, mint=self.mint)
        workspace, storage = WorkspaceOutcome(facts={}), FittedStorage(agent=observed.agent)
        if accepted or resolved:
            outcome = await self._withhold(observed, held, accepted, resolved)
        else:
            storage = await self.storage.fit_agent(observed)
            outcome, workspace = await self._write(replace(observed, agent=storage.agent), held)
            outcome = replace(
                outcome,
                workspace=workspace.health,
                storage=storage.difference,
                facts={**outcome.facts, **workspace.facts},
            )
        outcome = replace(outcome, write_loop=write_loop(self.cluster.list_delayed_writes(entry)))
        status = custom_status(
            entry.projection["status"],
            outcome,
            generation=entry.generation,
            now=now,
            rolls_out=True,
            installation=self.settings.installation,
            has_phase=True,
        )
        await self.cluster.write_status(entry, status)
        await self.workspaces.finish(observed.workspace, workspace)
        await prune_released(self.cluster, entry)
        await follow_parent(self.cluster, entry, observed.team)
        stopped = outcome.programmed
        due = [
            None if held.next_rotation is None else held.next_rotation - parse_timestamp(now),
            self.preflights.requeue_after(entry.id, now=now),
            self.mounts.repeat_after(entry.id),
            next_step_after(entry.projection["status"], status, now=parse_timestamp(now)),
            workspace.retry_after,
            storage.retry_after,
            next_connection_after(observed, now=parse_timestamp(now)),
            next_startup_after(observed, now=parse_timestamp(now)),
            # The reports of a running agent end the condition. No report comes from an agent that sleeps.
            next_reset_after(status, now=parse_timestamp(now)) if observed.report is None else None,
        ]
        return ReconcileResult(
            settled=stopped is None or stopped.reason in preflight_result.REASONS,
            refused=(is_refusal(stopped) and stopped != self.preflights.refusal(entry.id))
            or is_refusal(workspace.stopped),
            requeue_after=min((pause for pause in due if pause is not None), default=None),
        )

    async def _withhold(
        self,
        observed: ObservedAgent,
        held: AgentCredentials,
        accepted: Sequence[Violation],
        resolved: Sequence[Violation] | None,
    ) -> StageOutcomes:
        """Apply only what decides who may call, and keep the running revision.

        A caller that lost its permission loses its access even while the new spec is invalid. A sleeping agent wakes
        with the revision of its Deployment.
        """
        access = agent_access(
            observed.agent, held.tokens, pending=held.pending, callers=observed.callers, settings=self.settings
        )
        stopped = await write_children(self.cluster, unseen_secrets_first(self.cluster, access))
        facts = {} if stopped else ingress_facts(observed, self.settings)
        await self.mounts.refresh_pods(observed)
        await self.preflights.interrupt(observed)
        deployments = deployments_of(observed)
        if stopped is None and deployments and self.sleep.ends_while_blocked(observed, deployments[0]):
            # The agent's own Deployment is the last one, so that a refusal of another one is retried.
            stopped = await start_pods(self.cluster, reversed(deployments))
            facts = facts if stopped else {**facts, "sleep": None}
        record = audit_trail(observed, now=self.now())
        return StageOutcomes(
            accepted=accepted,
            resolved=resolved,
            programmed=stopped,
            serving=serving_note(observed),
            audit_cut=lost_lines(record),
            facts={"auditTrail": record, **facts},
        )

    async def _write(self, observed: ObservedAgent, held: AgentCredentials) -> tuple[StageOutcomes, WorkspaceOutcome]:
        children = agent_children(agent_parts(observed, held, self.settings), self.settings)
        has_pod = wants_pod(observed)
        sleep = self.sleep.state(observed, children.rendered.revision, has_pod=has_pod)
        # The status shows the sleep before the pod ends. Otherwise a restart of the operator between the two would wake
        # the agent, because nothing else tells a sleeping agent from one that has to start.
        is_asleep = sleep is not None and stored_state(observed.entry.projection["status"]) == sleep
        stopped = suspension_reason(observed.agent.spec, observed.team) or (_ASLEEP if is_asleep else "")
        workspace = workspace_children(
            observed.agent,
            digests=token_digests(held.tokens.workspace),
            runs=not stopped,
            services=observed.workspace.services if observed.workspace else {},
            proxy_address=observed.workspace.proxy_address if observed.workspace else "",
            claim=observed.workspace.claim if observed.workspace else None,
            limits=observe_limits(self.cluster.cache, observed.entry.namespace),
            settings=self.settings,
        )
        # The workspace comes first, so that it starts while the agent's next revision is checked.
        written = await self.workspaces.write(observed.agent, observed.workspace, workspace, stopped=stopped)
        beside = workspace.manifests if workspace else []
        outcome = await self._write_agent(observed, held, children, is_asleep=is_asleep, beside=beside)
        if outcome.written or (sleep is None and has_pod):  # A pod that serves has not gone to sleep.
            outcome = replace(outcome, facts={**outcome.facts, "sleep": sleep.document if sleep else None})
        return outcome, written

    async def _write_agent(
        self,
        observed: ObservedAgent,
        held: AgentCredentials,
        children: AgentChildren,
        *,
        is_asleep: bool,
        beside: Sequence[Manifest],
    ) -> StageOutcomes:
        """Write the agent itself. Args: `beside` are its other children, which are not deleted."""
        revision = children.rendered.revision
        if is_asleep:
            children = children.without_pod()
        stopped = await self._write_revision(observed, children)
        await self.mounts.refresh_pods(observed)
        if stopped is not None:
            return StageOutcomes(
                resolved=(),
                programmed=stopped,
                serving=serving_note(observed),
                facts=self._admitted(observed, children),
            )
        await self.preflights.finish(observed, asleep=is_asleep)
        await prune(self.cluster, observed.entry, [*children.manifests, *beside])
        await prune_history(self.cluster, observed.entry, current=names.agent_config(observed.entry.name, revision))
        return self._written(observed, held, children, is_asleep=is_asleep)

    def _written(
        self, observed: ObservedAgent, held: AgentCredentials, children: AgentChildren, *, is_asleep: bool
    ) -> StageOutcomes:
        """Return the outcome after everything was written."""
        revision = children.rendered.revision
        status = observed.entry.projection["status"]
        record = audit_trail(observed, now=self.now())
        tools = tools_of(status, observed.report, servers=tuple(observed.servers), revision=revision)
        budgets = budget_status(status, observed.report, observed.agent.spec.budgets, now=parse_timestamp(self.now()))
        now = parse_timestamp(self.now())
        health = agent_health(observed, self.cluster.cache, revision, now=now, asleep=is_asleep)
        return StageOutcomes(
            resolved=(),
            written=f"revision {revision}",
            health=health,
            serving=serving_note(observed) if health.reason == ROLLOUT_PAUSED else "",
            not_reported=observed.report is None
            and any(not (pod.deleting or has_ended(pod)) for pod in observed.of_kind("Pod")),
            degraded=degraded(
                observed.report,
                tools,
                servers=list_started_servers(observed, now=parse_timestamp(self.now())),
                plugins=plugin_names(observed),
                model_fails=model_fails(status, observed.report),
            ),
            refused=refused_model(observed.report),
            drift=self._drift(observed, children),
            unpriced=unpriced(observed.agent.spec, self.settings.catalog),
            assumed=assumed(observed.agent.spec, self.settings.catalog),
            over_budget=over_budget(observed.report, observed.agent.spec.budgets, shown=budgets["budgets"] or ()),
            audit_cut=lost_lines(record),
            fleet=fleet_problem(observed, self.settings),
            facts={
                **agent_facts(observed, children, held, settings=self.settings),
                "tools": tools or None,
                "auditTrail": record,
                **activity_status(
                    observed.report,
                    status.get("activity", {}),
                    created=observed.entry.created,
                    is_asleep=is_asleep,
                ),
                **budgets,
            },
        )

    async def _write_revision(self, observed: ObservedAgent, children: AgentChildren) -> Violation | None:
        """Write all children.

        If a pod may be serving, run a preflight of the new revision before the Deployment changes.
        """
        mounted = unseen_secrets_first(self.cluster, children.mounted)
        if observed.child("Deployment", observed.entry.name) is None:
            return await write_children(self.cluster, [*mounted, *children.serving])
        stopped = await write_children(self.cluster, mounted, following=children.serving)
        stopped = stopped or await self.preflights.run(observed, children, serving=serving_note(observed))
        return stopped or await write_children(self.cluster, children.serving)

    def _drift(self, observed: ObservedAgent, children: AgentChildren) -> Violation | None:
        wanted = children.card.digest
        another = self.reports.serves_another_card(observed.entry.namespace, observed.entry.name, wanted=wanted)
        return drift(observed.report, wanted=wanted, revision=children.rendered.revision, serves_another=another)

    def _admitted(self, observed: ObservedAgent, children: AgentChildren) -> dict[str, Any]:
        """Return the ingress part of the status if the NetworkPolicy is up to date, even if other children are not."""
        policies = [child for child in children.mounted if child["kind"] == "NetworkPolicy"]
        return (
            {} if any(self.cluster.outdated(policy) for policy in policies) else ingress_facts(observed, self.settings)
        )
