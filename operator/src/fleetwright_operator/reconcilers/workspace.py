"""The step of an Agent's reconcile that writes its workspace.

The workspace has its own Deployment, so a change of its image or its size never touches the agent. Its source is cloned
before the pod starts.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.workspace import WorkspaceSpec
from fleetwright_api.violation import Violation
from fleetwright_kube.cluster import Cluster
from fleetwright_operator.apply.child_writer import write_children
from fleetwright_operator.build.network.addresses import Destination
from fleetwright_operator.build.workspace.children import WorkspaceChildren, helpers_of
from fleetwright_operator.build.workspace.clone import (
    CONTAINER,
    clone_input_hash,
    clone_manifests,
    clone_prefix,
    git_source,
)
from fleetwright_operator.build.workspace.egress_hosts import has_hosts
from fleetwright_operator.build.workspace.volume import claim_name
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.namespace_limits import observe_limits
from fleetwright_operator.observe.workspace import ObservedWorkspace
from fleetwright_operator.rollout.probe_result import ProbeFailure, ProbePending
from fleetwright_operator.rollout.probe_runner import result_of
from fleetwright_operator.rollout.probe_schedule import ProbeSchedule
from fleetwright_operator.rollout.slot_limiter import WAITING_SECONDS, SlotLimiter
from fleetwright_operator.rollout.workspace_clone import failure_of, is_cloned, is_final, status_patch
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.workload_health import WorkloadHealth, deployment_health

CLONING: Final = "Cloning"
_RETRY_SECONDS: Final = 30


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceOutcome:
    """The result of the step."""

    health: WorkloadHealth | None = None
    """None if the agent has no workspace, or if it was not written."""
    stopped: Violation | None = None
    """The error at which writing stopped."""
    facts: Mapping[str, Any] = field(default_factory=lambda: {"workspace": None})
    """The field `workspace` of the status."""
    kept: str = ""
    """The name of the clone's pod that still runs."""
    retry_after: int | None = None
    """Seconds until a failed clone is tried again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceStep:
    cluster: Cluster
    settings: Settings
    schedule: ProbeSchedule
    """The retries of failed clones."""
    limiter: SlotLimiter
    """Limits how many clones run at the same time."""

    async def write(
        self, agent: AgentView, observed: ObservedWorkspace | None, children: WorkspaceChildren | None, *, stopped: str
    ) -> WorkspaceOutcome:
        """Write the workspace. Args: `stopped` says why no pod runs; empty if one should."""
        workspace = agent.spec.workspace
        if workspace is None or children is None or observed is None:
            return WorkspaceOutcome()
        facts = _workspace_status(agent, workspace, children)
        failed = await write_children(self.cluster, children.prepared)
        if failed is not None:
            return WorkspaceOutcome(health=_refused(failed), stopped=failed, facts={"workspace": facts})
        clone = await self._clone(agent, observed)
        facts = {**facts, **clone.facts}
        if clone.health is not None:
            return replace(clone, facts={"workspace": facts})
        if children.awaits_proxy:
            message = "the Service of the egress proxy was written and is not observed yet"
            return WorkspaceOutcome(health=WorkloadHealth(None, "NotObserved", message), facts={"workspace": facts})
        failed = await write_children(self.cluster, [children.deployment])
        if failed is not None:
            return WorkspaceOutcome(health=_refused(failed), stopped=failed, facts={"workspace": facts})
        health = deployment_health(
            observed.deployment, observed.pods, revision=None, claim=observed.claim, suspended=stopped
        )
        if health.status and has_hosts(workspace):
            health = _with_proxy(health, observed)
        if health.status and children.unresolved_hosts:
            health = WorkloadHealth(False, "ServiceNotFound", children.unresolved_hosts[0])
        return WorkspaceOutcome(health=health, facts={"workspace": facts})

    async def finish(self, observed: ObservedWorkspace | None, outcome: WorkspaceOutcome) -> None:
        """Delete the pods of earlier clones, and then their policies. The status must store the result first."""
        clones = observed.clones if observed else ()
        for found in clones:
            if found.deleting or found.name == outcome.kept:
                continue
            if found.kind == "Pod":
                await self.cluster.delete_pod(found)
            elif self.cluster.cache.get("Pod", found.namespace, found.name) is None:
                await self.cluster.delete(found)

    def forget(self, key: Key) -> None:
        self.schedule.forget(key)
        self.limiter.leave_queue(key)
        self.limiter.release_reservation(key)

    async def _clone(self, agent: AgentView, observed: ObservedWorkspace) -> WorkspaceOutcome:
        """Clone the source. The outcome has no health if nothing is left to be cloned, and the pod may start."""
        git = git_source(agent)
        if git is None or is_cloned(agent.status, git):
            return WorkspaceOutcome(facts={})
        server, secrets = observed.git_server, observed.git_secrets
        if isinstance(secrets, Violation):
            return _waiting(WorkloadHealth(False, "SourceUnusable", secrets.message))
        if not isinstance(server, Destination):
            return _waiting(WorkloadHealth(False, "SourceUnusable", server))
        key = (agent.kind, agent.namespace, agent.name)
        input_hash = clone_input_hash(agent, secrets)
        failure = failure_of(agent.status, input_hash)
        if failure is not None and (is_final(failure, git) or not self.schedule.is_due(key, failed=True)):
            known = {"clone": {"inputHash": input_hash, "failure": failure}}
            retry_after = None if is_final(failure, git) else _RETRY_SECONDS
            return _waiting(_failed(str(failure["message"])), facts=known, retry_after=retry_after)
        name = _begun_clone(observed, clone_prefix(agent.name, input_hash))
        if not name:
            helpers = helpers_of(agent, observe_limits(self.cluster.cache, agent.namespace), self.settings)
            manifests = clone_manifests(agent, git, input_hash=input_hash, found=server, helpers=helpers)
            name = manifests[-1]["metadata"]["name"]
            pods = [clone.name for clone in observed.clones if clone.kind == "Pod"]
            if any(pod != name for pod in pods):
                # Two pods must not write the same files. The end of the earlier one triggers the next pass.
                message = f"{git.url} is cloned as soon as the earlier clone has ended"
                return _waiting(WorkloadHealth(False, CLONING, message))
            if not pods and (others := self.limiter.take_slot(key)):
                message = f"{git.url} is cloned as soon as one of {others} other clones has ended"
                return _waiting(WorkloadHealth(False, CLONING, message), retry_after=WAITING_SECONDS)
            stopped = await write_children(self.cluster, manifests)
            if stopped is not None:
                # The policy stays, because deleting it would trigger a pass that writes it again.
                return WorkspaceOutcome(health=_refused(stopped), stopped=stopped, facts={}, kept=name)
        result = await result_of(self.cluster, agent.namespace, name, container=CONTAINER)
        if isinstance(result, ProbePending):
            why = f": {result.why.message}" if result.why else ""
            return _waiting(WorkloadHealth(False, CLONING, f"{git.url} is being cloned{why}"), kept=name)
        facts = status_patch(git, input_hash, result)
        self.schedule.record_result(key, failure=result.reason if isinstance(result, ProbeFailure) else "")
        if isinstance(result, ProbeFailure):
            return _waiting(_failed(result.message), facts=facts, retry_after=_RETRY_SECONDS)
        return WorkspaceOutcome(facts=facts)


def _begun_clone(observed: ObservedWorkspace, prefix: str) -> str:
    """Return the name of the pod that clones this source and has begun; empty if there is none.

    Another placement replaces only a pod that still waits for a node.
    """
    pods = (each for each in observed.clones if each.kind == "Pod" and not each.deleting)
    begun = (each.name for each in pods if each.projection.get("phase", "Pending") != "Pending")
    return next((name for name in begun if name.startswith(prefix)), "")


def _with_proxy(health: WorkloadHealth, observed: ObservedWorkspace) -> WorkloadHealth:
    """Return the health of a workspace that runs, or that of its egress proxy, if the proxy does not run."""
    proxy = deployment_health(observed.proxy, observed.proxy_pods, revision=None)
    return health if proxy.status else replace(proxy, message=f"the egress proxy: {proxy.message}")


def _waiting(
    health: WorkloadHealth, *, facts: Mapping[str, Any] | None = None, kept: str = "", retry_after: int | None = None
) -> WorkspaceOutcome:
    return WorkspaceOutcome(health=health, facts=facts or {}, kept=kept, retry_after=retry_after)


def _failed(message: str) -> WorkloadHealth:
    return WorkloadHealth(False, "CloneFailed", message)


def _refused(stopped: Violation) -> WorkloadHealth:
    return WorkloadHealth(False, stopped.reason, stopped.message)


def _workspace_status(agent: AgentView, workspace: WorkspaceSpec, children: WorkspaceChildren) -> dict[str, Any]:
    """Return what the status says of a workspace, with the result of an earlier clone."""
    claim = claim_name(agent.name, workspace)
    source = agent.status.get("workspace", {}).get("source") if git_source(agent) else None
    return {
        **({"claim": claim} if claim else {}),
        **({"source": source} if source else {}),
        "egress": [{"to": rule.to, "why": rule.why} for rule in children.egress_rules],
    }
