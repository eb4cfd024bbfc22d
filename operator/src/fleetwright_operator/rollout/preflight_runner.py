"""Runs a preflight pod of an agent's next revision before it replaces the one that serves.

Level-triggered, like all probes: any reconcile continues where another one stopped. A preflight that waits reports why
and never blocks the reconcile, so the credentials and the status of a waiting agent stay up to date.
"""

from dataclasses import dataclass

from fleetwright_operator.api.violation import Violation
from fleetwright_operator.apply.child_writer import write_children
from fleetwright_operator.build.agent import AgentChildren
from fleetwright_operator.build.deployment import is_suspended
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.preflight import preflight
from fleetwright_operator.build.probe import Probe, probe_manifests
from fleetwright_operator.encoding.timestamps import moment, written
from fleetwright_operator.kube.cached_object import CachedObject
from fleetwright_operator.kube.cluster import Cluster
from fleetwright_operator.observe.observation import ObservedAgent
from fleetwright_operator.observe.watch_index import Key
from fleetwright_operator.rollout import preflight_result
from fleetwright_operator.rollout.preflight_backoff import PreflightBackoff
from fleetwright_operator.rollout.preflight_result import (
    ENDED,
    PreflightFailed,
    PreflightInterrupted,
    PreflightPassed,
    PreflightPending,
    replaces,
    serves,
    verdict,
)
from fleetwright_operator.rollout.probe_runner import clear
from fleetwright_operator.rollout.rollout_limiter import WAITING_SECONDS, RolloutLimiter
from fleetwright_operator.status.workload_health import is_rolling


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightRunner:
    cluster: Cluster
    turns: RolloutLimiter
    tries: PreflightBackoff

    async def prove(self, seen: ObservedAgent, children: AgentChildren, *, serving: str) -> Violation | None:
        """Return why this revision may not replace the serving one yet; None if it may.

        Args: `serving` is the text that names the revision which keeps serving.
        """
        deployment = seen.child("Deployment", seen.entry.name)
        if not replaces(deployment, template=children.template_hash, suspended=is_suspended(seen.agent)):
            return None
        owner = owner_of(seen.agent)
        routes = children.routes if is_managed(seen.agent) else None
        wanted = preflight(owner, children.template, routes=routes, referenced=seen.referenced_versions)
        if not serves(deployment) and not self._has_begun(seen.entry, wanted):
            return None
        await clear(self.cluster, seen.entry, keep=wanted.name)
        stopped = await self._go_on(seen.entry, wanted)
        if stopped is None or stopped.reason not in preflight_result.REASONS:
            return stopped
        return Violation(stopped.reason, f"revision {children.rendered.revision} {stopped.message}{serving}")

    async def conclude(self, seen: ObservedAgent) -> None:
        """Delete the preflight pod: no preflight is needed.

        The agent's rollout slot is released once the newest pod serves.
        """
        self.tries.forget(seen.entry.id)
        self.turns.leave(seen.entry.id)
        deployment = self.cluster.cache.get("Deployment", seen.entry.namespace, seen.entry.name)
        if not is_rolling(deployment, suspended=is_suspended(seen.agent)):
            await clear(self.cluster, seen.entry)
            return
        for pod in self._pods(seen.entry):
            await self.cluster.dismiss(pod)

    async def interrupt(self, seen: ObservedAgent) -> None:
        """Pause the preflight, because the spec or its references are invalid. A refused revision keeps its pod."""
        if any(isinstance(verdict(pod), PreflightFailed) for pod in self._pods(seen.entry)):
            self.turns.leave(seen.entry.id)
        else:
            await self.conclude(seen)

    def again_after(self, agent: Key, *, now: str) -> float | None:
        """Return seconds until a waiting agent must be queued again; None if an event will trigger that."""
        if self.turns.waits(agent):
            return WAITING_SECONDS
        pause = self.tries.next_at(agent)
        return pause[1] - moment(now) if pause else None

    def forget(self, agent: Key) -> None:
        """Forget a deleted agent."""
        self.tries.forget(agent)
        self.turns.leave(agent)
        self.turns.passed(agent)

    def _pods(self, entry: CachedObject) -> list[CachedObject]:
        found = self.cluster.cache.find("probe-of", *entry.id)
        return [child for child in found if child.kind == "Pod" and not child.deleting]

    def _has_begun(self, entry: CachedObject, wanted: Probe) -> bool:
        """Return whether the preflight has begun. It is then finished even if the serving pod disappears for a moment.

        After a restart, the operator recognises it by the pod alone. A preflight that waits without a pod has shown no
        failure.
        """
        pod = self.cluster.cache.get("Pod", entry.namespace, wanted.name)
        return pod is not None or self.tries.is_trying(entry.id, wanted.name)

    async def _go_on(self, entry: CachedObject, wanted: Probe) -> Violation | None:
        pod = self.cluster.cache.get("Pod", entry.namespace, wanted.name)
        said = verdict(pod)
        self.tries.saw(
            entry.id,
            wanted.name,
            pod.uid if pod else "",
            obstacle=said.why if isinstance(said, PreflightPending) else "",
        )
        if pod is None and self.tries.misses(entry.id):
            said = PreflightInterrupted("its pod was deleted")
        if isinstance(said, PreflightPassed):
            return None
        if isinstance(said, PreflightFailed):
            return await self._hold(pod, said)
        if isinstance(said, PreflightInterrupted):
            self.tries.lost(entry.id, said)
        if isinstance(said, PreflightInterrupted) or self.tries.next_at(entry.id):
            return await self._pause(entry)
        return await self._try(entry, wanted, pod, said)

    async def _hold(self, pod: CachedObject | None, said: PreflightFailed) -> Violation:
        """Keep the pod as evidence, delete its policy, and so release the rollout slot."""
        policy = self.cluster.cache.get("NetworkPolicy", pod.namespace, pod.name) if pod else None
        if pod and policy and pod.facts.get("phase") in ENDED:
            await self.cluster.delete(policy)
        return Violation(preflight_result.FAILED, f"cannot start: {said.message}")

    async def _pause(self, entry: CachedObject) -> Violation:
        await clear(self.cluster, entry)
        pause = self.tries.next_at(entry.id)
        if pause is None:
            return Violation(preflight_result.TRYING, "is tried again as soon as its previous preflight pod has ended")
        why, due = pause
        again = f"{why.message}; it is tried again at {written(due)}"
        if why.late:
            return Violation(preflight_result.FAILED, f"cannot start: {again}")
        return Violation(preflight_result.TRYING, f"is being tried: {again}")

    async def _try(
        self, entry: CachedObject, wanted: Probe, pod: CachedObject | None, said: PreflightPending
    ) -> Violation:
        if pod is None and (others := self.turns.take(entry.id)):
            return Violation(preflight_result.TRYING, f"waits for other rollouts to finish: {others}")
        stopped = await write_children(self.cluster, probe_manifests(wanted))
        if stopped is not None:
            await clear(self.cluster, entry)
            return stopped
        return Violation(preflight_result.TRYING, "is being tried" + (f": {said.why}" if said.why else ""))
