"""Decides the next step of one Approval from the object, the agent's open questions and the time. Pure.

A decision is delivered until the agent has answered. The agent accepts one decision for each question, so delivering
again after a restart of the operator changes nothing. The agent's list of open questions decides all other steps.
"""

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from fleetwright_api import durations
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.approval import APPROVED, DENIED, ApprovalSpec, ApprovalView
from fleetwright_kube.timestamps import parse_timestamp
from fleetwright_operator.approvals.approval_listing import MAX_OPEN, OpenApproval
from fleetwright_operator.approvals.delivery import DeliveryAnswer, Outcome, edit_problem, unknown_field_problem
from fleetwright_operator.status.approval_status import PENDING, ApprovalState, Phase, stored_approval_state
from fleetwright_operator.status.conditions import DECIDED, DELIVERED, Condition

GRACE: Final = 60
"""Seconds after the expiry within which the agent itself denies the call, even if its clock differs."""
MAX_CLOSED: Final = 200
"""The largest number of closed Approvals of one agent. The oldest are deleted before their time."""
_FULL: Final = 5
"""Seconds until the operator tries again to create an Approval, while the agent has too many open ones."""
_SHORTEST, _LONGEST = 1, 30
"""The pauses between two deliveries to an agent that does not answer, in seconds."""


class ApprovalAction(StrEnum):
    NONE = "none"
    CREATE = "create"
    DELIVER = "deliver"
    CLEAR = "clear"
    """Report the state, and then remove the decision, so that a person can decide again."""
    DELETE = "delete"


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    action: ApprovalAction = ApprovalAction.NONE
    state: ApprovalState | None = None
    """The state to report; None leaves the status as it is."""
    requeue_after: int | None = None
    escalates: bool = False
    """True if the operator must report the wait to the parent agent."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedApproval:
    """One question of an agent, and its Approval if it exists."""

    agent: AgentView
    approval: ApprovalView | None
    ask: OpenApproval | None
    """None if the agent does not list the question."""
    is_listed: bool
    """True if the agent has listed its questions since this process became the leader."""
    open_approvals: int
    """The number of other open Approvals of the agent."""
    newer_closed: int
    """The number of Approvals of the agent that were closed later."""
    retention: int
    """Seconds for which a closed Approval is kept."""
    now: int


def next_step(observed: ObservedApproval) -> Step:
    approval, ask, now = observed.approval, observed.ask, observed.now
    if approval is None:
        return _opening(observed, ask) if ask is not None else Step()
    state = stored_approval_state(approval.status) or PENDING
    if ask is not None and ask.digest != approval.spec.request.arguments_digest:
        return Step(action=ApprovalAction.DELETE)  # The question has other arguments now. It gets a new Approval.
    if state.closed is not None and not _continues(state, approval.spec, ask):
        left = state.closed + observed.retention - now
        if left <= 0 or observed.newer_closed >= MAX_CLOSED:
            return Step(action=ApprovalAction.DELETE)
        return Step(requeue_after=left)
    if approval.spec.decision is not None:
        return _decided(approval, state)
    if ask is None and (observed.is_listed or _is_overdue(approval.spec, now)):
        return Step(state=_ended(approval.spec, state, now), requeue_after=observed.retention)
    return _pending(observed, approval.spec, state)


def after_delivery(observed: ObservedApproval, spec: ApprovalSpec, outcome: Outcome) -> Step:
    """Return the step after the agent has answered a decision, or could not be reached."""
    now = observed.now
    state = stored_approval_state(observed.approval.status if observed.approval else {}) or PENDING
    made = _made(spec, state)
    kept = Step(requeue_after=observed.retention)
    match outcome.answer:
        case DeliveryAnswer.ACCEPTED:
            delivery = Condition(DELIVERED, True, "Accepted", "the agent has accepted the decision")
            return replace(kept, state=replace(made, delivery=delivery, delivered=now, closed=now))
        case DeliveryAnswer.DECIDED:
            when = f" at {outcome.decided_at}" if outcome.decided_at else ""
            who = f"{outcome.decided_by or 'another client'} had already decided {outcome.decision}{when}"
            decided = _decided_condition(outcome.decision, who)
            delivery = Condition(DELIVERED, False, "DecidedBefore", f"{who}, so this decision has no effect")
            state = ApprovalState(phase=Phase(outcome.decision), decided=decided, delivery=delivery, closed=now)
            return replace(kept, state=state)
        case DeliveryAnswer.CHANGED:
            return Step(action=ApprovalAction.DELETE)
        case DeliveryAnswer.NOT_FOUND:
            delivery = Condition(DELIVERED, False, "TaskEnded", "the task no longer waits for this decision")
            return replace(kept, state=replace(_ended(spec, state, now), delivery=delivery))
        case DeliveryAnswer.INVALID:
            message = f"the agent refused the decision: {outcome.message}; decide again"
            return _refused(spec, state, Condition(DELIVERED, False, "InvalidEdit", message))
        case _:
            return _undelivered(observed, spec, made, outcome.message)


def _opening(observed: ObservedApproval, ask: OpenApproval) -> Step:
    if ask.expires_at is not None and ask.expires_at <= observed.now:
        return Step()
    return Step(action=ApprovalAction.CREATE) if observed.open_approvals < MAX_OPEN else Step(requeue_after=_FULL)


def _continues(state: ApprovalState, spec: ApprovalSpec, ask: OpenApproval | None) -> bool:
    """Return whether a closed Approval is open again: the agent still asks, or a person has decided meanwhile."""
    ended_undecided = state.phase in {Phase.EXPIRED, Phase.WITHDRAWN} and state.delivery is None
    return ended_undecided and (ask is not None or spec.decision is not None)


def _decided(approval: ApprovalView, state: ApprovalState) -> Step:
    """Return the step for an Approval with a decision that was not delivered.

    The chart's admission policy forbids these deciders too, but an installation may lack the policy.
    """
    spec = approval.spec
    if spec.decided_by in spec.request.forbidden_deciders:
        message = f"{spec.decided_by} may not decide about this request; another person has to decide"
        return _refused(spec, state, Condition(DELIVERED, False, "ForbiddenDecider", message))
    if problem := unknown_field_problem(approval) or edit_problem(spec):
        return _refused(spec, state, Condition(DELIVERED, False, "InvalidEdit", f"{problem}; decide again"))
    return Step(action=ApprovalAction.DELIVER, state=state)


def _refused(spec: ApprovalSpec, state: ApprovalState, refusal: Condition) -> Step:
    return Step(action=ApprovalAction.CLEAR, state=_waiting(spec, refusal=refusal, escalated=state.escalated))


def _waiting(spec: ApprovalSpec, *, refusal: Condition | None, escalated: int | None) -> ApprovalState:
    """Return the state of an Approval that waits for a decision.

    Args:
        refusal: Why the last decision was refused; None if there was none.
        escalated: When the wait was reported to the parent agent. It is reported once, also after refused decisions.
    """
    request = spec.request
    message = f"agent {request.agent} has been waiting since {request.created_at} for a decision about {request.tool}"
    return replace(PENDING, delivery=refusal, escalated=escalated, escalation="" if escalated is None else message)


def _made(spec: ApprovalSpec, state: ApprovalState) -> ApprovalState:
    decision = spec.decision or ""
    why = f": {spec.reason}" if spec.reason else ""
    decided = _decided_condition(decision, f"decided by {spec.decided_by}{why}")
    return ApprovalState(phase=Phase(decision), decided=decided, escalated=state.escalated)


def _decided_condition(decision: str, message: str) -> Condition:
    return Condition(DECIDED, True, APPROVED if decision == APPROVED else DENIED, message)


def _undelivered(observed: ObservedApproval, spec: ApprovalSpec, made: ApprovalState, why: str) -> Step:
    if _is_overdue(spec, observed.now):
        delivery = Condition(DELIVERED, False, "TaskEnded", f"not delivered before the expiry: {why}")
        return Step(
            state=replace(_ended(spec, made, observed.now), delivery=delivery), requeue_after=observed.retention
        )
    delivery = Condition(DELIVERED, False, "Delivering", f"not delivered yet: {why}; the operator tries again")
    since = _decided_since(observed)
    pause = min(_LONGEST, max(_SHORTEST, (observed.now - since) // 4))
    return Step(state=replace(made, delivery=delivery), requeue_after=pause)


def _decided_since(observed: ObservedApproval) -> int:
    """Return when the decision was first seen."""
    status = observed.approval.status if observed.approval else {}
    conditions = status.get("conditions", ())
    found = next((each for each in conditions if each["type"] == DECIDED and each["status"] == "True"), None)
    return parse_timestamp(found["lastTransitionTime"]) if found else observed.now


def _is_overdue(spec: ApprovalSpec, now: int) -> bool:
    expiry = _expiry(spec)
    return expiry is not None and now >= expiry + GRACE


def _ended(spec: ApprovalSpec, state: ApprovalState, now: int) -> ApprovalState:
    """Return the state of an Approval that ends without a decision. It may be opened again."""
    expiry = _expiry(spec)
    if expiry is not None and now >= expiry:
        decided = Condition(DECIDED, False, "Expired", "the approval expired before the agent accepted a decision")
        return ApprovalState(phase=Phase.EXPIRED, decided=decided, closed=now, escalated=state.escalated)
    message = "the agent no longer waits: its task ended, or a client of the agent has answered"
    decided = Condition(DECIDED, False, "Withdrawn", message)
    return ApprovalState(phase=Phase.WITHDRAWN, decided=decided, closed=now, escalated=state.escalated)


def _pending(observed: ObservedApproval, spec: ApprovalSpec, state: ApprovalState) -> Step:
    """Return the step for an Approval that waits for a decision."""
    refusal = state.delivery if state.phase is Phase.PENDING else None
    now, expiry, escalation = observed.now, _expiry(spec), _escalation(observed.agent, spec)
    escalates = escalation is not None and state.escalated is None and now >= escalation
    waiting = _waiting(spec, refusal=refusal, escalated=now if escalates else state.escalated)
    due = [expiry + GRACE if expiry is not None else None, escalation if waiting.escalated is None else None]
    pauses = [moment - now for moment in due if moment is not None and moment > now]
    return Step(state=waiting, requeue_after=min(pauses, default=None), escalates=escalates)


def _expiry(spec: ApprovalSpec) -> int | None:
    return _moment(spec.request.expires_at)


def _escalation(agent: AgentView, spec: ApprovalSpec) -> int | None:
    after, created = agent.spec.approvals.escalate_after, _moment(spec.request.created_at)
    try:
        return None if after is None or created is None else created + durations.seconds(after)
    except ValueError:
        return None  # The reconciler of the Agent reports the invalid field.


def _moment(text: str | None) -> int | None:
    try:
        return parse_timestamp(text) if text else None
    except ValueError:
        return None
