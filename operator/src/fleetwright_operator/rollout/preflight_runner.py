"""Runs a preflight pod of an agent's next revision before it replaces the one that serves.

Level-triggered, like all probes: any reconcile continues where another one stopped. A waiting preflight reports the
reason and never blocks the reconcile. The credentials and the status of a waiting agent therefore stay current.
"""

from dataclasses import dataclass

from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.apply.child_writer import write_children
from fleetwright_operator.build.agent import AgentChildren
from fleetwright_operator.build.manifest import owner_of
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.preflight import preflight
from fleetwright_operator.build.probe import Probe, probe_manifests
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.namespace_limits import observe_limits
from fleetwright_operator.rollout import preflight_result
from fleetwright_operator.rollout.preflight_backoff import PreflightBackoff
from fleetwright_operator.rollout.preflight_result import (
    PreflightFailed,
    PreflightInterrupted,
    PreflightPassed,
    PreflightPending,
    evaluate_pod,
    is_replacement,
    is_serving,
)
from fleetwright_operator.rollout.probe_runner import delete_probes
from fleetwright_operator.rollout.slot_limiter import WAITING_SECONDS, SlotLimiter
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.workload_health import has_ended, is_rolling


@dataclass(frozen=True, slots=True, kw_only=True)
class PreflightRunner:
    cluster: Cluster
    limiter: SlotLimiter
    backoff: PreflightBackoff
    settings: Settings

    async def run(self, observed: ObservedAgent, children: AgentChildren, *, serving: str) -> Violation | None:
        """Return the reason why this revision may not replace the serving one yet; None if it may.

        Args: `serving` is the text that names the revision which keeps serving.
        """
        deployment = observed.child("Deployment", observed.entry.name)
        if not is_replacement(deployment, template=children.template_hash, suspended=observed.agent.spec.suspend):
            return None
        owner = owner_of(observed.agent)
        egress_rules = children.egress_rules if is_managed(observed.agent.spec) else None
        wanted = preflight(
            owner,
            children.template,
            egress_rules=egress_rules,
            referenced=observed.referenced_versions,
            helpers=HelperPodSettings(
                settings=self.settings, limits=observe_limits(self.cluster.cache, observed.entry.namespace)
            ),
        )
        if not is_serving(deployment) and not self._has_begun(observed.entry, wanted):
            return None
        await delete_probes(self.cluster, observed.entry, keep=wanted.name)
        stopped = await self._advance(observed.entry, wanted)
        if stopped is None or stopped.reason not in preflight_result.REASONS:
            return stopped
        return Violation(stopped.reason, f"revision {children.rendered.revision} {stopped.message}{serving}")

    async def finish(self, observed: ObservedAgent, *, asleep: bool = False) -> None:
        """Delete the preflight pod, because no preflight is needed any more.

        The agent's rollout slot is released once the newest pod serves.
        """
        self.backoff.forget(observed.entry.id)
        self.limiter.leave_queue(observed.entry.id)
        deployment = self.cluster.cache.get("Deployment", observed.entry.namespace, observed.entry.name)
        if not is_rolling(deployment, stopped=asleep or observed.agent.spec.suspend):
            await delete_probes(self.cluster, observed.entry)
            return
        for pod in self._pods(observed.entry):
            await self.cluster.delete_pod(pod)

    async def interrupt(self, observed: ObservedAgent) -> None:
        """Pause the preflight, because the spec or its references are invalid. The pod of a refused revision stays."""
        if any(isinstance(evaluate_pod(pod), PreflightFailed) for pod in self._pods(observed.entry)):
            self.limiter.leave_queue(observed.entry.id)
        else:
            await self.finish(observed)

    def requeue_after(self, agent: Key, *, now: str) -> float | None:
        """Return seconds until a waiting agent must be queued again; None if an event will trigger that."""
        if self.limiter.is_waiting(agent):
            return WAITING_SECONDS
        due = self.backoff.due(agent)
        return None if due is None else due - parse_timestamp(now)

    def refusal(self, agent: Key) -> Violation | None:
        """Return why the preflight is paused, if the API server refused its pod. The next attempt is scheduled."""
        return self.backoff.refusal(agent)

    def forget(self, agent: Key) -> None:
        """Forget a deleted agent."""
        self.backoff.forget(agent)
        self.limiter.leave_queue(agent)
        self.limiter.release_reservation(agent)

    def _pods(self, entry: CachedObject) -> list[CachedObject]:
        found = self.cluster.cache.find("probe-of", *entry.id)
        return [child for child in found if child.kind == "Pod" and not child.deleting]

    def _has_begun(self, entry: CachedObject, wanted: Probe) -> bool:
        """Return whether the preflight has begun.

        The operator finishes a begun preflight even if the serving pod disappears for a moment. After a restart, the
        operator recognises a preflight by its pod alone. A preflight that waits without a pod has not failed yet.
        """
        pod = self.cluster.cache.get("Pod", entry.namespace, wanted.name)
        return pod is not None or self.backoff.is_trying(entry.id, wanted.name)

    async def _advance(self, entry: CachedObject, wanted: Probe) -> Violation | None:
        pod = self.cluster.cache.get("Pod", entry.namespace, wanted.name)
        result = evaluate_pod(pod)
        self.backoff.observe(
            entry.id,
            wanted.name,
            pod.uid if pod else "",
            obstacle=result.why if isinstance(result, PreflightPending) else "",
        )
        if pod is None and self.backoff.pod_disappeared(entry.id):
            result = PreflightInterrupted("its pod was deleted")
        if isinstance(result, PreflightPassed):
            return None
        if isinstance(result, PreflightFailed):
            return await self._hold(pod, result)
        if isinstance(result, PreflightInterrupted):
            self.backoff.record_interruption(entry.id, result)
        if isinstance(result, PreflightInterrupted) or self.backoff.next_attempt(entry.id):
            return await self._pause(entry)
        if pod is None and (refusal := self.backoff.refusal(entry.id)):
            await delete_probes(self.cluster, entry)
            return refusal
        return await self._try(entry, wanted, pod, result)

    async def _hold(self, pod: CachedObject | None, result: PreflightFailed) -> Violation:
        """Keep the pod as evidence, but delete its policy, which releases the rollout slot."""
        policy = self.cluster.cache.get("NetworkPolicy", pod.namespace, pod.name) if pod else None
        if pod and policy and has_ended(pod):
            await self.cluster.delete(policy)
        return Violation(preflight_result.FAILED, f"cannot start: {result.message}")

    async def _pause(self, entry: CachedObject) -> Violation:
        await delete_probes(self.cluster, entry)
        pause = self.backoff.next_attempt(entry.id)
        if pause is None:
            return Violation(preflight_result.TRYING, "is tried again as soon as its previous preflight pod has ended")
        why, due = pause
        again = f"{why.message}; it is tried again at {format_timestamp(due)}"
        if why.late:
            return Violation(preflight_result.FAILED, f"cannot start: {again}")
        return Violation(preflight_result.TRYING, f"is being tried: {again}")

    async def _try(
        self, entry: CachedObject, wanted: Probe, pod: CachedObject | None, result: PreflightPending
    ) -> Violation:
        if pod is None and (others := self.limiter.take_slot(entry.id)):
            return Violation(preflight_result.TRYING, f"waits for other rollouts to finish: {others}")
        stopped = await write_children(self.cluster, probe_manifests(wanted))
        if stopped is not None:
            # Deleting the policy releases the rollout slot. It also triggers the next pass, which must not try again.
            refusal = self.backoff.record_refusal(entry.id, stopped)
            await delete_probes(self.cluster, entry)
            return refusal
        return Violation(preflight_result.TRYING, "is being tried" + (f": {result.why}" if result.why else ""))
