"""Whether an Agent sleeps, from everything that was observed about it."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.approval_sources import may_request_approval
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex
from fleetwright_operator.kinds.views import approval_of
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.observe.approvals import is_of
from fleetwright_operator.reconcilers.agent_facts import agent_health, wants_pod
from fleetwright_operator.rollout.sleep import SleepState, next_state, stored_state
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSleep:
    cluster: Cluster
    settings: Settings
    asks: OpenApprovalIndex
    now: Callable[[], str]

    def state(self, observed: ObservedAgent, revision: str, *, has_pod: bool) -> SleepState | None:
        """Return the sleep of the agent; None if the agent is awake.

        Args:
            observed: The agent.
            revision: The revision that the agent should have.
            has_pod: True if the Deployment of the agent wants a pod.
        """
        deployment, now = observed.child("Deployment", observed.entry.name), parse_timestamp(self.now())
        written = "" if deployment is None else deployment.projection["revision"]
        return next_state(
            observed.agent.spec,
            stored_state(observed.entry.projection["status"]),
            has_pod=has_pod,
            has_gateway=self.settings.gateway is not None,
            annotations=observed.entry.annotations,
            is_rolled_out=agent_health(observed, self.cluster.cache, revision, now=now).status is True,
            has_new_revision=written != revision,
            activity=observed.report.activity if observed.report else None,
            ending=observed.ending_report.activity if observed.ending_report else None,
            has_decision=observed.has_decision,
            shows_questions=self._shows_questions(observed),
            now=now,
        )

    def ends_while_blocked(self, observed: ObservedAgent, deployment: CachedObject) -> bool:
        """Return whether the status of a blocked agent shows a sleep that ends now.

        The state of a suspended agent is kept, so that a request wakes the agent after it is resumed. A blocked agent
        does not go to sleep, so a sleep whose pod still serves ends as well.
        """
        if not observed.entry.projection["status"].get("sleep") or observed.agent.spec.suspend:
            return False
        if wants_pod(observed):
            return True
        return self.state(observed, deployment.projection["revision"], has_pod=False) is None

    def _shows_questions(self, observed: ObservedAgent) -> bool:
        entry = observed.entry
        if not may_request_approval(observed.agent.spec):
            return True
        if not self.asks.may_sleep(entry.namespace, entry.name, uid=entry.uid):
            return False
        listed = self.asks.approvals(entry.namespace, entry.name)
        return all(self._is_shown(entry, approval) for approval in listed)

    def _is_shown(self, agent: CachedObject, approval: str) -> bool:
        """Return whether the Approval of an open question exists, or is not needed any more."""
        ask = self.asks.find(agent.namespace, agent.name, approval, uid=agent.uid)
        if ask is None or (ask.expires_at is not None and ask.expires_at <= self.asks.now):
            return True
        entry = self.cluster.cache.get(names.APPROVAL, agent.namespace, approval)
        if entry is None or not is_of(entry, agent):
            return False
        return approval_of(entry).spec.request.arguments_digest == ask.digest
