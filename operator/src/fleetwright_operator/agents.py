"""The pass of one Agent: what was seen becomes children, credentials and a status."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.canonical import short_hash
from fleetwright_operator.checks import ACCEPTED, RESOLVED, violations
from fleetwright_operator.cluster.cluster import Cluster
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.credentials import tokens_for
from fleetwright_operator.desired.agent import AgentChildren, AgentParts, agent_children, agent_credentials
from fleetwright_operator.desired.callers import Tokens, client_names
from fleetwright_operator.desired.deployment import Snapshot, is_suspended
from fleetwright_operator.desired.secrets import auth_files
from fleetwright_operator.desired.volume import is_ephemeral
from fleetwright_operator.observe import ObservedAgent, observe_agent
from fleetwright_operator.reports import Reports
from fleetwright_operator.rollout import deployment_health
from fleetwright_operator.settings import Settings
from fleetwright_operator.skill_document import SkillContent
from fleetwright_operator.status import Outcome, custom_status
from fleetwright_operator.violation import Violation
from fleetwright_operator.writing import prune, prune_history, write_children


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPass:
    cluster: Cluster
    settings: Settings
    reports: Reports
    now: Callable[[], str]
    mint: Callable[[], str]

    async def __call__(self, entry: Entry) -> bool:
        """Whether everything was written that should be."""
        seen = observe_agent(
            self.cluster.cache,
            entry,
            settings=self.settings,
            unreachable=self.reports.unreachable(entry.namespace, entry.name),
        )
        accepted = violations(ACCEPTED, seen, self.settings)
        resolved = None if accepted else violations(RESOLVED, seen, self.settings)
        tokens = tokens_for(seen, mint=self.mint)
        if accepted or resolved:
            outcome = await self._withhold(seen, tokens, accepted, resolved)
        else:
            outcome = await self._write(seen, tokens)
        status = custom_status(
            entry.facts["status"], outcome, generation=entry.generation, now=self.now(), rolls_out=True
        )
        await self.cluster.write_status(entry, status)
        return outcome.programmed is None

    async def _withhold(
        self,
        seen: ObservedAgent,
        tokens: Tokens,
        accepted: Sequence[Violation],
        resolved: Sequence[Violation] | None,
    ) -> Outcome:
        """What runs stays as it is, except for credentials: who lost a right loses it now."""
        stopped = await write_children(self.cluster, agent_credentials(seen.agent, tokens))
        if stopped is None:
            await self._refresh_pods(seen, tokens)
        return Outcome(accepted=accepted, resolved=resolved, programmed=stopped, serving=self._serving(seen))

    async def _write(self, seen: ObservedAgent, tokens: Tokens) -> Outcome:
        children = agent_children(_parts(seen, tokens), self.settings)
        revision = children.rendered.revision
        stopped = await write_children(self.cluster, children.manifests)
        if stopped is not None:
            return Outcome(resolved=(), programmed=stopped, serving=self._serving(seen))
        await prune(self.cluster, seen.entry, children.manifests)
        await prune_history(self.cluster, seen.entry, current=names.agent_config(seen.entry.name, revision))
        await self._refresh_pods(seen, tokens)
        return Outcome(
            resolved=(),
            written=f"revision {revision}",
            health=self._health(seen, revision),
            degraded=_degraded(seen),
            facts=self._facts(seen, children),
        )

    async def _refresh_pods(self, seen: ObservedAgent, tokens: Tokens) -> None:
        """Mounted Secrets reach a pod within a minute by themselves, and at once when an annotation changes."""
        key_version = seen.key_secret.resource_version if seen.key_secret else ""
        wanted = {names.REFRESH_ANNOTATION: short_hash([auth_files(tokens), key_version])}
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

    def _serving(self, seen: ObservedAgent) -> str:
        deployment = seen.child("Deployment", seen.entry.name)
        if deployment is None or not deployment.facts["status"].get("availableReplicas"):
            return ""
        return f"; revision {deployment.facts['revision']} goes on serving"

    def _facts(self, seen: ObservedAgent, children: AgentChildren) -> dict[str, Any]:
        rendered = children.rendered
        return {
            "url": rendered.config["url"],
            "revision": rendered.revision,
            "card": {"digest": rendered.card_digest, "skills": len(rendered.card["skills"])},
            "skills": [{key: skill[key] for key in ("name", "digest")} for skill in rendered.config["skills"]],
            "clients": [
                {"name": client, "secret": names.agent_client(seen.entry.name, client)}
                for client in client_names(seen.agent)
            ],
            "memory": self._memory(seen),
            "egress": [{"to": route.to, "why": route.why} for route in children.routes],
        }

    def _memory(self, seen: ObservedAgent) -> dict[str, Any] | None:
        if is_ephemeral(seen.agent):
            return None
        name = names.agent_memory(seen.entry.name)
        claim = self.cluster.cache.get("PersistentVolumeClaim", seen.entry.namespace, name)
        older = claim is not None and claim.created < seen.entry.created
        return {"claim": name, **({"reattached": True} if older else {})}


def _parts(seen: ObservedAgent, tokens: Tokens) -> AgentParts:
    """Everything is there: the checks have passed."""
    skills = {name: skill.facts["status"] for name, skill in seen.skills.items() if skill is not None}
    return AgentParts(
        agent=seen.agent,
        skills={
            name: SkillContent(name=name, description=status["description"], digest=status["digest"])
            for name, status in skills.items()
        },
        snapshots={
            name: Snapshot(name=snapshot.name, keys=snapshot.facts["keys"]) for name, snapshot in seen.snapshots.items()
        },
        servers={name: server for name, server in seen.servers.items() if server is not None},
        peers={name: peer for name, peer in seen.peers.items() if peer is not None},
        callers=seen.callers,
        services=seen.services,
        tokens=tokens,
    )


def _degraded(seen: ObservedAgent) -> Violation | None:
    used = {name: why for name, why in seen.unreachable.items() if name in seen.servers}
    if not used:
        return None
    text = "; ".join(f"McpServer {name!r} cannot be reached: {why}" for name, why in sorted(used.items()))
    return Violation("McpServerUnreachable", text)
