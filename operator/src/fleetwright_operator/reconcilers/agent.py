"""The reconciler of an Agent: turns what was observed into children, credentials and a status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_api.skill_document import SkillContent
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.apply.child_writer import (
    is_refusal,
    prune,
    prune_history,
    prune_released,
    unseen_secrets_first,
    write_children,
)
from fleetwright_operator.approvals.open_asks import OpenAsks
from fleetwright_operator.build.agent import AgentChildren, AgentParts, agent_access, agent_children, ingress_peers
from fleetwright_operator.build.callers import client_names
from fleetwright_operator.build.config.models import assumed, unpriced
from fleetwright_operator.build.config.permissions import permissions_status
from fleetwright_operator.build.deployment import SkillSnapshot
from fleetwright_operator.build.network.ingress import ingress_status
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.pod.skill_source import RemoteSkill
from fleetwright_operator.credentials.keyring import card_signatures
from fleetwright_operator.observe.observation import ObservedAgent, observe_agent
from fleetwright_operator.observe.watch_index import Key
from fleetwright_operator.reconcilers.agent_credentials import AgentCredentials, credentials_for
from fleetwright_operator.reconcilers.parent_owner import follow_parent
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.rollout import preflight_result
from fleetwright_operator.rollout.preflight_runner import PreflightRunner
from fleetwright_operator.rollout.sleep import SleepState, next_state, stored_state
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.activity_status import activity_status
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.audit_record import Record, lost_lines, record_of
from fleetwright_operator.status.runtime_conditions import degraded, drift, model_fails, over_budget, tools_of
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import WorkloadHealth, deployment_health
from fleetwright_operator.validate.agent_checks import ACCEPTED
from fleetwright_operator.validate.check import violations
from fleetwright_operator.validate.fleet_checks import fleet_problem, suspension_reason
from fleetwright_operator.validate.reference_checks import RESOLVED

_UNMANAGED = "spec.network.policy is None"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReconciler:
    cluster: Cluster
    settings: Settings
    reports: AgentReports
    now: Callable[[], str]
    mint: Callable[[], str]
    preflights: PreflightRunner
    asks: OpenAsks

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        """Reconcile one Agent, and return when to reconcile it again."""
        try:
            return await self._pass(entry)
        finally:
            self.preflights.limiter.release(entry.id)

    def forget(self, key: Key) -> None:
        self.reports.forget(key[1], key[2])
        self.asks.forget(key[1], key[2])
        self.preflights.forget(key)

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
        if accepted or resolved:
            outcome = await self._withhold(observed, held, accepted, resolved)
        else:
            outcome = await self._write(observed, held)
        status = custom_status(
            entry.projection["status"], outcome, generation=entry.generation, now=now, rolls_out=True, has_phase=True
        )
        await self.cluster.write_status(entry, status)
        await prune_released(self.cluster, entry)
        await follow_parent(self.cluster, entry, observed.team)
        stopped = outcome.programmed
        due = [
            None if held.next_rotation is None else held.next_rotation - parse_timestamp(now),
            self.preflights.requeue_after(entry.id, now=now),
            _wakes_after(status, now),
        ]
        return ReconcileResult(
            settled=stopped is None or stopped.reason in preflight_result.REASONS,
            refused=is_refusal(stopped),
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

        A caller that lost its permission loses its access even while the new spec is invalid.
        """
        access = agent_access(
            observed.agent, held.tokens, pending=held.pending, callers=observed.callers, settings=self.settings
        )
        stopped = await write_children(self.cluster, unseen_secrets_first(self.cluster, access))
        await self._refresh_pods(observed)
        await self.preflights.interrupt(observed)
        record = self._audit_record(observed)
        return StageOutcomes(
            accepted=accepted,
            resolved=resolved,
            programmed=stopped,
            serving=self._serving(observed),
            audit_cut=lost_lines(record),
            facts={"auditTrail": record, **({} if stopped else self._ingress(observed))},
        )

    async def _write(self, observed: ObservedAgent, held: AgentCredentials) -> StageOutcomes:
        children = agent_children(_parts(observed, held, self.settings), self.settings)
        revision = children.rendered.revision
        sleep = self._sleep_state(observed, revision)
        if sleep is not None:
            children = children.without_pod()
        stopped = await self._write_revision(observed, children)
        await self._refresh_pods(observed)
        if stopped is not None:
            return StageOutcomes(
                resolved=(),
                programmed=stopped,
                serving=self._serving(observed),
                facts=self._admitted(observed, children),
            )
        await self.preflights.finish(observed, asleep=sleep is not None)
        await prune(self.cluster, observed.entry, children.manifests)
        await prune_history(self.cluster, observed.entry, current=names.agent_config(observed.entry.name, revision))
        status = observed.entry.projection["status"]
        record = self._audit_record(observed)
        tools = tools_of(status, observed.report, servers=tuple(observed.servers), revision=revision)
        return StageOutcomes(
            resolved=(),
            written=f"revision {revision}",
            health=self._health(observed, revision, asleep=sleep is not None),
            not_reported=observed.report is None and any(not pod.deleting for pod in observed.of_kind("Pod")),
            degraded=degraded(
                observed.report,
                tools,
                servers=tuple(observed.servers),
                plugins=_plugins(observed),
                model_fails=model_fails(status, observed.report),
            ),
            drift=self._drift(observed, children),
            unpriced=unpriced(observed.agent.spec, self.settings.catalog),
            assumed=assumed(observed.agent.spec, self.settings.catalog),
            over_budget=over_budget(observed.report, observed.agent.spec.budgets),
            audit_cut=lost_lines(record),
            fleet=fleet_problem(observed.agent.spec, observed.team, self.settings),
            facts={
                **self._facts(observed, children, held),
                "tools": tools or None,
                "auditTrail": record,
                "sleep": sleep.document if sleep else None,
                **activity_status(observed.report),
            },
        )

    def _sleep_state(self, observed: ObservedAgent, revision: str) -> SleepState | None:
        deployment = observed.child("Deployment", observed.entry.name)
        written = "" if deployment is None else deployment.projection["revision"]
        return next_state(
            observed.agent.spec,
            stored_state(observed.entry.projection["status"]),
            has_gateway=self.settings.gateway is not None,
            annotations=observed.entry.annotations,
            is_rolled_out=self._health(observed, revision).status is True,
            has_new_revision=written != revision,
            activity=observed.report.activity if observed.report else None,
            has_decision=observed.has_decision,
            now=parse_timestamp(self.now()),
        )

    async def _write_revision(self, observed: ObservedAgent, children: AgentChildren) -> Violation | None:
        """Write all children.

        If a pod may be serving, run a preflight of the new revision before the Deployment changes.
        """
        mounted = unseen_secrets_first(self.cluster, children.mounted)
        if observed.child("Deployment", observed.entry.name) is None:
            return await write_children(self.cluster, [*mounted, *children.serving])
        stopped = await write_children(self.cluster, mounted, following=children.serving)
        stopped = stopped or await self.preflights.run(observed, children, serving=self._serving(observed))
        return stopped or await write_children(self.cluster, children.serving)

    async def _refresh_pods(self, observed: ObservedAgent) -> None:
        """Make the kubelet re-read mounted objects at once instead of within a minute, by changing a pod annotation.

        The annotation depends on the objects that were written, not on the desired ones, because writing may have
        stopped halfway.
        """
        cache, space, name = self.cluster.cache, observed.entry.namespace, observed.entry.name
        auth = cache.get("Secret", space, names.agent_auth(name))
        card = cache.get("ConfigMap", space, names.agent_card(name))
        keys = cache.get("Secret", space, names.agent_push(name))
        versions = [mounted.resource_version if mounted else "" for mounted in (auth, card)]
        # An object that is not mounted adds nothing to the hash, so pods of agents without push keys keep their
        # annotation.
        versions += [keys.resource_version] if keys else []
        wanted = {names.REFRESH_ANNOTATION: short_hash([*versions, *observed.referenced_versions])}
        for pod in observed.of_kind("Pod"):
            if not pod.deleting and not wanted.items() <= pod.annotations.items():
                await self.cluster.annotate(pod, wanted)

    def _health(self, observed: ObservedAgent, revision: str, *, asleep: bool = False) -> WorkloadHealth:
        cache, space, name = self.cluster.cache, observed.entry.namespace, observed.entry.name
        return deployment_health(
            cache.get("Deployment", space, name),
            observed.of_kind("Pod"),
            revision=revision,
            claim=cache.get("PersistentVolumeClaim", space, names.agent_memory(name)),
            suspended=suspension_reason(observed.agent.spec, observed.team),
            asleep=asleep,
        )

    def _drift(self, observed: ObservedAgent, children: AgentChildren) -> Violation | None:
        wanted = children.card.digest
        another = self.reports.serves_another_card(observed.entry.namespace, observed.entry.name, wanted=wanted)
        return drift(observed.report, wanted=wanted, revision=children.rendered.revision, serves_another=another)

    def _serving(self, observed: ObservedAgent) -> str:
        deployment = observed.child("Deployment", observed.entry.name)
        if deployment is None or not deployment.projection["status"].get("availableReplicas"):
            return ""
        return f"; revision {deployment.projection['revision']} keeps serving"

    def _facts(self, observed: ObservedAgent, children: AgentChildren, held: AgentCredentials) -> dict[str, Any]:
        rendered = children.rendered
        return {
            "url": rendered.config["url"],
            "revision": rendered.revision,
            "previousRevision": _previous(observed.agent.status, rendered.revision),
            "card": {
                "digest": children.card.digest,
                "skills": len(rendered.card["skills"]),
                **({"signedBy": [key.key.kid for key in observed.card_keys]} if observed.card_keys else {}),
            },
            "skills": [{key: skill[key] for key in ("name", "digest")} for skill in rendered.config["skills"]],
            "clients": [
                {"name": client, "secret": names.agent_client(observed.entry.name, client)}
                for client in client_names(observed.agent.spec)
            ],
            "credentials": {"expires": format_timestamp(held.expires)} if held.expires is not None else None,
            "memory": self._memory(observed),
            "egress": _egress(observed, children),
            **(self._ingress(observed) or {"ingress": [{"from": "wherever other policies allow", "why": _UNMANAGED}]}),
            "permissions": _permissions(observed),
        }

    def _ingress(self, observed: ObservedAgent) -> dict[str, Any]:
        """Return the ingress part of the status, or nothing if no policy was written."""
        sources = ingress_peers(observed.agent, callers=observed.callers, settings=self.settings)
        return {"ingress": ingress_status(sources)} if sources else {}

    def _audit_record(self, observed: ObservedAgent) -> Record | None:
        """Return the record of the audit trail; None if the trail is off or is deleted with its pod."""
        if observed.agent.spec.memory.storage.ephemeral or observed.agent.spec.audit.mode == "Off":
            return None
        return record_of(
            observed.entry.projection["status"].get("auditTrail"),
            observed.report.audit if observed.report else None,
            acknowledged=observed.entry.annotations.get(names.AUDIT_ACKNOWLEDGED_ANNOTATION, ""),
            now=self.now(),
        )

    def _admitted(self, observed: ObservedAgent, children: AgentChildren) -> dict[str, Any]:
        """Return the ingress part of the status if the NetworkPolicy is up to date, even if other children are not."""
        policies = [child for child in children.mounted if child["kind"] == "NetworkPolicy"]
        return {} if any(self.cluster.outdated(policy) for policy in policies) else self._ingress(observed)

    def _memory(self, observed: ObservedAgent) -> dict[str, Any] | None:
        if observed.agent.spec.memory.storage.ephemeral:
            return None
        name = names.agent_memory(observed.entry.name)
        claim = self.cluster.cache.get("PersistentVolumeClaim", observed.entry.namespace, name)
        older = claim is not None and claim.created < observed.entry.created
        return {"claim": name, **({"reattached": True} if older else {})}


def _wakes_after(status: Mapping[str, Any], now: str) -> int | None:
    """Return the seconds until the agent wakes for work of its own; None if it does not sleep or has none."""
    state = stored_state(status)
    return None if state is None or state.wakes_at is None else max(0, state.wakes_at - parse_timestamp(now))


def _previous(status: Mapping[str, Any], revision: str) -> str | None:
    """Return the revision before this one. Applying its spec again restores it."""
    last = status.get("revision")
    previous: str | None = status.get("previousRevision") if last == revision else last
    return previous


def _permissions(observed: ObservedAgent) -> dict[str, Any] | None:
    servers = {name: server for name, server in observed.servers.items() if server is not None}
    return permissions_status(observed.agent.spec, servers, observed.needs)


def _egress(observed: ObservedAgent, children: AgentChildren) -> list[dict[str, str]]:
    if not is_managed(observed.agent.spec):
        return [{"to": "wherever other policies allow", "why": _UNMANAGED}]
    return [{"to": route.to, "why": route.why} for route in children.egress_rules]


def _parts(observed: ObservedAgent, held: AgentCredentials, settings: Settings) -> AgentParts:
    """Collect what the children are made from. The checks have passed, so every reference exists."""
    skills = {name: skill for name, skill in observed.skills.items() if skill is not None}
    return AgentParts(
        agent=observed.agent,
        skills={
            name: SkillContent(
                name=name,
                description=skill.status["description"],
                digest=skill.status["digest"],
                needs=skill.needs,
            )
            for name, skill in skills.items()
        },
        snapshots={
            **{
                name: SkillSnapshot(name=held.name, keys=held.projection["keys"])
                for name, held in observed.snapshots.items()
            },
            **{
                name: RemoteSkill(source=skill.accepted_source, digest=skill.status["digest"])
                for name, skill in skills.items()
                if skill.accepted_source is not None
            },
        },
        servers={name: server for name, server in observed.servers.items() if server is not None},
        peers={peer[1]: agent for peer, agent in observed.peers.items() if agent is not None},
        callers=observed.callers,
        services=observed.services,
        tokens=held.tokens,
        pending=held.pending,
        environment=observed.environment_versions,
        sign=partial(card_signatures, ring=observed.card_keys, jku=settings.key_set_url),
    )


def _plugins(observed: ObservedAgent) -> tuple[str, ...]:
    return tuple(plugin.name for plugin in observed.agent.spec.plugins)
