"""The reconciler of an Approval. It creates and later deletes the object of a question, and delivers the decision.

The key of an Approval is reconciled even if the object does not exist, because the operator creates it. A pure function
decides every step, and every step is idempotent. A restart of the operator between two writes therefore repeats at most
a delivery. The agent answers a repeated delivery like the first one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity
from fleetwright_api.spec.agent import AgentView
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.cluster import Cluster
from fleetwright_kube.errors import RetryLaterError
from fleetwright_kube.port import Object
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.approvals.delivery import Deliver, DeliveryAnswer, Outcome, decision_document
from fleetwright_operator.approvals.next_step import ApprovalAction, ObservedApproval, Step, after_delivery, next_step
from fleetwright_operator.approvals.open_approval_index import OpenApprovalIndex
from fleetwright_operator.approvals.request_manifest import request_manifest
from fleetwright_operator.credentials.derived_tokens import operator_tokens
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.kinds.views import agent_of, approval_of
from fleetwright_operator.observe.approvals import is_of, serving_pod
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.observe.installation import is_managed_elsewhere
from fleetwright_operator.reconcilers.result import ReconcileResult
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.approval_status import approval_status
from fleetwright_operator.status.conditions import DECIDED, ESCALATED
from fleetwright_operator.status.events import Notice, event_manifest

_DECISION: Final = ("decision", "decidedBy", "reason", "arguments")
"""The fields that a person sets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalReconciler:
    cluster: Cluster
    settings: Settings
    asks: OpenApprovalIndex
    now: Callable[[], str]
    deliver: Deliver
    tell: Callable[[Object], None]
    """Records an Event."""
    on_outcome: Callable[[str], None]
    """Called with the agent's answer to a decision, for the metrics."""

    async def __call__(self, key: Key) -> ReconcileResult:
        """Reconcile one Approval, which may not exist yet."""
        _, space, name = key
        entry = self.cluster.cache.get(*key)
        agent = self.cluster.cache.get(names.AGENT, space, names.agent_of_approval(name))
        if entry is not None and entry.is_ours and entry.controller is None:
            await self.cluster.delete(entry)  # Its agent was deleted without its children.
            return ReconcileResult()
        if agent is None or agent.deleting or (entry is not None and not is_of(entry, agent)):
            return ReconcileResult()  # The garbage collector deletes Approvals of a deleted agent.
        if is_managed_elsewhere(agent, self.settings):
            return ReconcileResult()
        observed = self._observe(entry, agent, name)
        step = next_step(observed)
        if step.action is ApprovalAction.CREATE:
            await self._create(agent, name)
            return ReconcileResult()
        if entry is None:
            return ReconcileResult(requeue_after=step.requeue_after)
        if step.action is ApprovalAction.DELIVER:
            outcome = await self._deliver(entry, agent)
            self.on_outcome(outcome.answer.value)
            step = after_delivery(observed, approval_of(entry).spec, outcome)
        await self._perform(entry, agent, step)
        return ReconcileResult(requeue_after=step.requeue_after)

    def _observe(self, entry: CachedObject | None, agent: CachedObject, name: str) -> ObservedApproval:
        cache, space = self.cluster.cache, agent.namespace
        others = [
            each for each in cache.find("approval-of", space, agent.name) if is_of(each, agent) and each.name != name
        ]
        closed = str(entry.projection["status"].get("closed", "")) if entry else ""
        return ObservedApproval(
            agent=agent_of(agent),
            approval=approval_of(entry) if entry else None,
            ask=self.asks.find(space, agent.name, name, uid=agent.uid),
            is_listed=self.asks.is_known(space, agent.name, uid=agent.uid),
            open_approvals=sum(not approval_of(each).is_closed for each in others),
            newer_closed=sum(str(each.projection["status"].get("closed", "")) > closed for each in others),
            retention=self.settings.approval_retention_seconds,
            now=parse_timestamp(self.now()),
        )

    async def _create(self, agent: CachedObject, name: str) -> None:
        ask = self.asks.find(agent.namespace, agent.name, name, uid=agent.uid)
        if ask is None:
            return
        wanted = self.cluster.outdated(request_manifest(agent_of(agent), ask, self._agent))
        if wanted is None:
            return
        if pause := self.asks.wait_to_open(agent.namespace, agent.name):
            raise RetryLaterError(pause, f"agent {agent.name} opens many approvals; they are created one by one")
        await self.cluster.apply(wanted)
        self._tell(agent, Notice(DECIDED, False, "ApprovalRequested", f"{name} waits for a decision about {ask.tool}"))

    def _agent(self, identity: Identity) -> AgentView | None:
        entry = self.cluster.cache.get(names.AGENT, *identity)
        return None if entry is None else agent_of(entry)

    async def _deliver(self, entry: CachedObject, agent: CachedObject) -> Outcome:
        cache, spec = self.cluster.cache, approval_of(entry).spec
        pod = serving_pod(cache, agent)
        if pod is None:
            return Outcome(answer=DeliveryAnswer.NONE, message="the agent has no ready pod")
        ring = stored_ring(cache.get(names.CARD_KEYS, *self.settings.card_keys_place))
        tokens = operator_tokens(ring, agent.uid)
        return await self.deliver(pod, tokens, spec.request.ask, decision_document(spec))

    async def _perform(self, entry: CachedObject, agent: CachedObject, step: Step) -> None:
        if step.action is ApprovalAction.DELETE:
            await self.cluster.delete(entry)
            return
        if step.state is not None:
            status = approval_status(
                entry.projection["status"], step.state, generation=entry.generation, now=self.now()
            )
            await self.cluster.write_status(entry, status)
            if step.escalates:
                self._tell_parent(agent, step.state.escalation)
        current = self.cluster.cache.get(*entry.id)
        if step.action is ApprovalAction.CLEAR and current is not None and current.uid == entry.uid:
            patch: dict[str, Any] = dict.fromkeys((*_DECISION, *approval_of(current).unknown))
            await self.cluster.patch(current, {"spec": patch})

    def _tell_parent(self, agent: CachedObject, message: str) -> None:
        """Record an Event on the parent agent, so that the people who run the parent know of the wait."""
        parent = agent_of(agent).spec.fleet.parent
        entry = None if parent is None else self.cluster.cache.get(names.AGENT, agent.namespace, parent.name)
        if entry is not None:
            self._tell(entry, Notice(ESCALATED, True, "ApprovalEscalated", message))

    def _tell(self, agent: CachedObject, notice: Notice) -> None:
        about = {"kind": agent.kind, "namespace": agent.namespace, "name": agent.name, "uid": agent.uid}
        self.tell(event_manifest(notice, about, now=self.now()))
