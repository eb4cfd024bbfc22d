"""The reconciler of an Agent: turns what was observed into children, credentials and a status."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.api.skill_document import SkillContent
from fleetwright_operator.api.violation import Violation
from fleetwright_operator.apply.child_writer import (
    is_refusal,
    prune,
    prune_history,
    prune_released,
    unseen_secrets_first,
    write_children,
)
from fleetwright_operator.build.agent import AgentChildren, AgentParts, agent_access, agent_children, ways_in
from fleetwright_operator.build.callers import client_names
from fleetwright_operator.build.config.models import assumed, unpriced
from fleetwright_operator.build.config.permissions import permissions_status
from fleetwright_operator.build.deployment import SkillSnapshot, is_suspended
from fleetwright_operator.build.network.ingress import ingress_status
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.pod.memory_volume import is_ephemeral
from fleetwright_operator.build.pod.skill_source import RemoteSkill
from fleetwright_operator.credentials.keyring import card_signatures
from fleetwright_operator.encoding.canonical_json import short_hash
from fleetwright_operator.encoding.timestamps import moment, written
from fleetwright_operator.kube.cached_object import CachedObject
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.observe.observation import ObservedAgent, observe_agent
from fleetwright_operator.reconcilers.agent_credentials import AgentCredentials, credentials_for
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.rollout import preflight_result
from fleetwright_operator.rollout.preflight_runner import PreflightRunner
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReports
from fleetwright_operator.status.audit_record import Record, lost_lines, record_of
from fleetwright_operator.status.runtime_conditions import degraded, drift, over_budget, tools_of
from fleetwright_operator.status.status import StageOutcomes, custom_status
from fleetwright_operator.status.workload_health import deployment_health
from fleetwright_operator.validate.agent_checks import ACCEPTED
from fleetwright_operator.validate.check import violations
from fleetwright_operator.validate.reference_checks import RESOLVED

_UNMANAGED = "spec.network.policy is None"


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentReconciler:
    cluster: Cluster
    settings: Settings
    reports: AgentReports
    now: Callable[[], str]
    mint: Callable[[], str]
    proving: PreflightRunner

    async def __call__(self, entry: CachedObject) -> ReconcileResult:
        """Reconcile one Agent, and return when to look at it again."""
        try:
            return await self._pass(entry)
        finally:
            self.proving.turns.passed(entry.id)

    async def _pass(self, entry: CachedObject) -> ReconcileResult:
        seen = observe_agent(
            self.cluster.cache,
            entry,
            settings=self.settings,
            said=self.reports.said(entry.namespace, entry.name),
        )
        accepted = violations(ACCEPTED, seen, self.settings)
        resolved = None if accepted else violations(RESOLVED, seen, self.settings)
        now = self.now()
        held = credentials_for(seen, settings=self.settings, now=now, mint=self.mint)
        if accepted or resolved:
            outcome = await self._withhold(seen, held, accepted, resolved)
        else:
            outcome = await self._write(seen, held)
        status = custom_status(entry.facts["status"], outcome, generation=entry.generation, now=now, rolls_out=True)
        await self.cluster.write_status(entry, status)
        await prune_released(self.cluster, entry)
        stopped = outcome.programmed
        due = [
            None if held.next_turn is None else held.next_turn - moment(now),
            self.proving.again_after(entry.id, now=now),
        ]
        return ReconcileResult(
            settled=stopped is None or stopped.reason in preflight_result.REASONS,
            refused=is_refusal(stopped),
            again_after=min((pause for pause in due if pause is not None), default=None),
        )

    async def _withhold(
        self,
        seen: ObservedAgent,
        held: AgentCredentials,
        accepted: Sequence[Violation],
        resolved: Sequence[Violation] | None,
    ) -> StageOutcomes:
        """Apply only what decides who may call, and keep the running revision.

        A caller that lost its permission loses its access even while the new spec is invalid.
        """
        access = agent_access(
            seen.agent, held.tokens, pending=held.pending, callers=seen.callers, settings=self.settings
        )
        stopped = await write_children(self.cluster, unseen_secrets_first(self.cluster, access))
        await self._refresh_pods(seen)
        await self.proving.interrupt(seen)
        record = self._audit_record(seen)
        return StageOutcomes(
            accepted=accepted,
            resolved=resolved,
            programmed=stopped,
            serving=self._serving(seen),
            audit_cut=lost_lines(record),
            facts={"auditTrail": record, **({} if stopped else self._ingress(seen))},
        )

    async def _write(self, seen: ObservedAgent, held: AgentCredentials) -> StageOutcomes:
        children = agent_children(_parts(seen, held, self.settings), self.settings)
        revision = children.rendered.revision
        stopped = await self._write_revision(seen, children)
        await self._refresh_pods(seen)
        if stopped is not None:
            return StageOutcomes(
                resolved=(), programmed=stopped, serving=self._serving(seen), facts=self._admitted(seen, children)
            )
        await self.proving.conclude(seen)
        await prune(self.cluster, seen.entry, children.manifests)
        await prune_history(self.cluster, seen.entry, current=names.agent_config(seen.entry.name, revision))
        status = seen.entry.facts["status"]
        record = self._audit_record(seen)
        tools = tools_of(status, seen.said, servers=tuple(seen.servers), revision=revision)
        return StageOutcomes(
            resolved=(),
            written=f"revision {revision}",
            health=self._health(seen, revision),
            unheard=seen.said is None and any(not pod.deleting for pod in seen.of_kind("Pod")),
            degraded=degraded(seen.said, tools, servers=tuple(seen.servers), plugins=_plugins(seen)),
            drift=self._drift(seen, children),
            unpriced=unpriced(seen.agent["spec"], self.settings.catalog),
            assumed=assumed(seen.agent["spec"], self.settings.catalog),
            over_budget=over_budget(seen.said, seen.agent["spec"].get("budgets", ())),
            audit_cut=lost_lines(record),
            facts={**self._facts(seen, children, held), "tools": tools or None, "auditTrail": record},
        )

    async def _write_revision(self, seen: ObservedAgent, children: AgentChildren) -> Violation | None:
        """Write all children.

        If a pod may be serving, run a preflight of the new revision before the Deployment changes.
        """
        mounted = unseen_secrets_first(self.cluster, children.mounted)
        if seen.child("Deployment", seen.entry.name) is None:
            return await write_children(self.cluster, [*mounted, *children.serving])
        stopped = await write_children(self.cluster, mounted, following=children.serving)
        stopped = stopped or await self.proving.prove(seen, children, serving=self._serving(seen))
        return stopped or await write_children(self.cluster, children.serving)

    async def _refresh_pods(self, seen: ObservedAgent) -> None:
        """Make the kubelet re-read mounted objects at once instead of within a minute, by changing a pod annotation.

        Compares with what was written and not with what is desired, because writing may have stopped halfway.
        """
        cache, space, name = self.cluster.cache, seen.entry.namespace, seen.entry.name
        auth = cache.get("Secret", space, names.agent_auth(name))
        card = cache.get("ConfigMap", space, names.agent_card(name))
        keys = cache.get("Secret", space, names.agent_push(name))
        versions = [mounted.resource_version if mounted else "" for mounted in (auth, card)]
        # An object that is not mounted adds nothing to the hash, so pods of agents without push keys keep their
        # annotation.
        versions += [keys.resource_version] if keys else []
        wanted = {names.REFRESH_ANNOTATION: short_hash([*versions, *seen.referenced_versions])}
        for pod in seen.of_kind("Pod"):
            if not pod.deleting and not wanted.items() <= pod.annotations.items():
                await self.cluster.annotate(pod, wanted)

    def _health(self, seen: ObservedAgent, revision: str) -> Any:
        cache, space, name = self.cluster.cache, seen.entry.namespace, seen.entry.name
        return deployment_health(
            cache.get("Deployment", space, name),
            seen.of_kind("Pod"),
            revision=revision,
            claim=cache.get("PersistentVolumeClaim", space, names.agent_memory(name)),
            suspended=is_suspended(seen.agent),
        )

    def _drift(self, seen: ObservedAgent, children: AgentChildren) -> Violation | None:
        wanted = children.card.digest
        another = self.reports.serves_another_card(seen.entry.namespace, seen.entry.name, wanted=wanted)
        return drift(seen.said, wanted=wanted, revision=children.rendered.revision, serves_another=another)

    def _serving(self, seen: ObservedAgent) -> str:
        deployment = seen.child("Deployment", seen.entry.name)
        if deployment is None or not deployment.facts["status"].get("availableReplicas"):
            return ""
        return f"; revision {deployment.facts['revision']} keeps serving"

    def _facts(self, seen: ObservedAgent, children: AgentChildren, held: AgentCredentials) -> dict[str, Any]:
        rendered = children.rendered
        return {
            "url": rendered.config["url"],
            "revision": rendered.revision,
            "previousRevision": _previous(seen.agent["status"], rendered.revision),
            "card": {
                "digest": children.card.digest,
                "skills": len(rendered.card["skills"]),
                **({"signedBy": [key.key.kid for key in seen.card_keys]} if seen.card_keys else {}),
            },
            "skills": [{key: skill[key] for key in ("name", "digest")} for skill in rendered.config["skills"]],
            "clients": [
                {"name": client, "secret": names.agent_client(seen.entry.name, client)}
                for client in client_names(seen.agent)
            ],
            "credentials": {"expires": written(held.expires)} if held.expires is not None else None,
            "memory": self._memory(seen),
            "egress": _egress(seen, children),
            **(self._ingress(seen) or {"ingress": [{"from": "wherever other policies allow", "why": _UNMANAGED}]}),
            "permissions": _permissions(seen),
        }

    def _ingress(self, seen: ObservedAgent) -> dict[str, Any]:
        """Return the ingress part of the status, or nothing if no policy was written."""
        ways = ways_in(seen.agent, callers=seen.callers, settings=self.settings)
        return {"ingress": ingress_status(ways)} if ways else {}

    def _audit_record(self, seen: ObservedAgent) -> Record | None:
        """Return the record of the audit trail, or None for a trail that is off or ends with its pod."""
        if is_ephemeral(seen.agent) or seen.agent["spec"].get("audit", {}).get("mode") == "Off":
            return None
        return record_of(
            seen.entry.facts["status"].get("auditTrail"),
            seen.said.audit if seen.said else None,
            acknowledged=seen.entry.annotations.get(names.AUDIT_ACKNOWLEDGED_ANNOTATION, ""),
            now=self.now(),
        )

    def _admitted(self, seen: ObservedAgent, children: AgentChildren) -> dict[str, Any]:
        """Return the ingress part of the status if the NetworkPolicy is up to date, even if other children are not."""
        policies = [child for child in children.mounted if child["kind"] == "NetworkPolicy"]
        return {} if any(self.cluster.outdated(policy) for policy in policies) else self._ingress(seen)

    def _memory(self, seen: ObservedAgent) -> dict[str, Any] | None:
        if is_ephemeral(seen.agent):
            return None
        name = names.agent_memory(seen.entry.name)
        claim = self.cluster.cache.get("PersistentVolumeClaim", seen.entry.namespace, name)
        older = claim is not None and claim.created < seen.entry.created
        return {"claim": name, **({"reattached": True} if older else {})}


def _previous(status: Mapping[str, Any], revision: str) -> str | None:
    """Return the revision before this one. Applying its spec again restores it."""
    last = status.get("revision")
    previous: str | None = status.get("previousRevision") if last == revision else last
    return previous


def _permissions(seen: ObservedAgent) -> dict[str, Any] | None:
    servers = {name: server for name, server in seen.servers.items() if server is not None}
    return permissions_status(seen.agent, servers, seen.needs)


def _egress(seen: ObservedAgent, children: AgentChildren) -> list[dict[str, str]]:
    if not is_managed(seen.agent):
        return [{"to": "wherever other policies allow", "why": _UNMANAGED}]
    return [{"to": route.to, "why": route.why} for route in children.routes]


def _parts(seen: ObservedAgent, held: AgentCredentials, settings: Settings) -> AgentParts:
    """Collect what the children are made from. The checks have passed, so every reference exists."""
    skills = {name: skill.facts["status"] for name, skill in seen.skills.items() if skill is not None}
    return AgentParts(
        agent=seen.agent,
        skills={
            name: SkillContent(
                name=name,
                description=status["description"],
                digest=status["digest"],
                permissions=seen.needs.get(name, {}),
            )
            for name, status in skills.items()
        },
        snapshots={
            **{name: SkillSnapshot(name=held.name, keys=held.facts["keys"]) for name, held in seen.snapshots.items()},
            **{
                name: RemoteSkill(source=status["source"], digest=status["digest"])
                for name, status in skills.items()
                if "source" in status
            },
        },
        servers={name: server for name, server in seen.servers.items() if server is not None},
        peers={peer[1]: agent for peer, agent in seen.peers.items() if agent is not None},
        callers=seen.callers,
        services=seen.services,
        tokens=held.tokens,
        pending=held.pending,
        environment=seen.environment_versions,
        sign=partial(card_signatures, ring=seen.card_keys, jku=settings.key_set_url),
    )


def _plugins(seen: ObservedAgent) -> tuple[str, ...]:
    return tuple(plugin["name"] for plugin in seen.agent["spec"].get("plugins", ()))
