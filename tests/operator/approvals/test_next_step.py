"""The next step of an Approval: a table over the object, the agent's list and the time."""

import pytest
from tests.support.operator.approvals import AGENT, ASK, approval_body

from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.approval import parse_approval
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.approvals.approval_listing import MAX_OPEN, parse_listing
from fleetwright_operator.approvals.delivery import DeliveryAnswer, Outcome
from fleetwright_operator.approvals.next_step import (
    GRACE,
    MAX_CLOSED,
    ApprovalAction,
    ObservedApproval,
    after_delivery,
    next_step,
)
from fleetwright_operator.status.approval_status import Phase, approval_status

NOW = 2_000
DAY = 86_400
ALICE = {"decision": "Approved", "decidedBy": "alice"}


def ask(**changes):
    listing = parse_listing({"version": "1", "open": [{**ASK, **changes}]}, now=NOW)
    assert listing is not None
    return listing.asks[0]


def observed(approval=None, *, lists=True, listed=True, now=NOW, others=0, newer=0, escalate=None, **changes):
    approvals = {"approvals": {"escalateAfter": escalate}} if escalate else {}
    spec = {"model": {"name": "m"}, **approvals}
    return ObservedApproval(
        agent=parse_agent({"metadata": {"name": "clerk", "namespace": "shop"}, "spec": spec}),
        approval=None if approval is None else parse_approval(approval),
        ask=ask(**changes) if lists else None,
        is_listed=listed,
        open_approvals=others,
        newer_closed=newer,
        retention=DAY,
        now=now,
    )


def status_of(step, previous=None, *, now=NOW):
    return approval_status(previous or {}, step.state, generation=1, now=format_timestamp(now))


def withdrawn(*, at=NOW):
    return status_of(next_step(observed(approval_body(), lists=False, now=at)), now=at)


@pytest.mark.parametrize(
    ("given", "action"),
    [
        pytest.param({}, ApprovalAction.CREATE, id="a new question"),
        pytest.param({"others": MAX_OPEN}, ApprovalAction.NONE, id="a hundred are open"),
        pytest.param({"expiresAt": format_timestamp(NOW)}, ApprovalAction.NONE, id="it has expired"),
        pytest.param({"lists": False}, ApprovalAction.NONE, id="the agent does not ask"),
    ],
)
def test_next_step_creates_an_object_for_each_open_question(given, action):
    step = next_step(observed(**given))
    assert step.action is action
    assert (step.requeue_after is not None) is ("others" in given)


PHASES = [
    pytest.param({}, Phase.PENDING, id="the agent asks"),
    pytest.param({"lists": False, "listed": False}, Phase.PENDING, id="the agent was not read yet, or sleeps"),
    pytest.param({"lists": False}, Phase.WITHDRAWN, id="the agent no longer asks"),
    pytest.param({"lists": False, "now": 3_600}, Phase.EXPIRED, id="no longer after the expiry"),
    pytest.param({"lists": False, "listed": False, "now": 3_600 + GRACE}, Phase.EXPIRED, id="expired in its sleep"),
    pytest.param({"now": 3_600 + GRACE}, Phase.PENDING, id="the agent still asks, because its clock is late"),
]


@pytest.mark.parametrize(("given", "phase"), PHASES)
def test_next_step_follows_the_list_without_a_decision(given, phase):
    step = next_step(observed(approval_body(), **given))
    assert step.action is ApprovalAction.NONE
    assert step.state is not None
    assert step.state.phase is phase
    assert (step.state.closed is None) is (phase is Phase.PENDING)


def test_next_step_waits_for_expiry_and_grace():
    assert next_step(observed(approval_body())).requeue_after == 3_600 + GRACE - NOW
    assert next_step(observed(approval_body(expires=None), expiresAt=None)).requeue_after is None
    assert next_step(observed(approval_body(), now=4_000)).requeue_after is None


def test_next_step_delivers_a_decision_before_anything_else():
    assert next_step(observed(approval_body(**ALICE))).action is ApprovalAction.DELIVER
    assert next_step(observed(approval_body(**ALICE), lists=False)).action is ApprovalAction.DELIVER
    assert (
        next_step(observed(approval_body(**ALICE), lists=False, listed=False, now=9_000)).action
        is ApprovalAction.DELIVER
    )


REFUSALS = [
    pytest.param({"decidedBy": AGENT}, "ForbiddenDecider", id="the agent itself"),
    pytest.param(
        {"decidedBy": "alice", "arguments": {"x": "y" * 70_000}}, "InvalidEdit", id="an edit that is too long"
    ),
]


@pytest.mark.parametrize(("decision", "reason"), REFUSALS)
def test_next_step_clears_a_decision_that_may_not_be_sent(decision, reason):
    step = next_step(observed(approval_body(decision="Approved", **decision)))
    assert step.action is ApprovalAction.CLEAR
    assert step.state is not None
    assert step.state.phase is Phase.PENDING
    assert step.state.delivery is not None
    assert step.state.delivery.reason == reason


def test_next_step_keeps_a_refusal_until_the_next_decision():
    refused = status_of(next_step(observed(approval_body(decision="Approved", decidedBy=AGENT))))
    step = next_step(observed(approval_body(status=refused)))
    assert status_of(step, refused) == refused


@pytest.mark.parametrize(
    ("outcome", "phase", "reason", "closed"),
    [
        pytest.param(Outcome(answer=DeliveryAnswer.ACCEPTED), "Approved", "Accepted", True, id="accepted"),
        pytest.param(
            Outcome(answer=DeliveryAnswer.DECIDED, decision="Denied", decided_by="bob"),
            "Denied",
            "DecidedBefore",
            True,
            id="late",
        ),
        pytest.param(Outcome(answer=DeliveryAnswer.NOT_FOUND), "Withdrawn", "TaskEnded", True, id="the task has ended"),
        pytest.param(
            Outcome(answer=DeliveryAnswer.NONE, message="no pod"), "Approved", "Delivering", False, id="no answer"
        ),
        pytest.param(
            Outcome(answer=DeliveryAnswer.INVALID, message="no"), "Pending", "InvalidEdit", False, id="a bad edit"
        ),
    ],
)
def test_after_delivery_reports_the_answer(outcome, phase, reason, closed):
    seen = observed(approval_body(**ALICE))
    step = after_delivery(seen, parse_approval(approval_body(**ALICE)).spec, outcome)
    status = status_of(step)
    delivered = next(each for each in status["conditions"] if each["type"] == "Delivered")
    assert (status["phase"], delivered["reason"], "closed" in status) == (phase, reason, closed)
    assert (step.action is ApprovalAction.CLEAR) is (outcome.answer is DeliveryAnswer.INVALID)
    assert ("delivered" in status) is (outcome.answer is DeliveryAnswer.ACCEPTED)


def test_after_delivery_of_changed_arguments_deletes_the_object():
    step = after_delivery(
        observed(approval_body(**ALICE)),
        parse_approval(approval_body(**ALICE)).spec,
        Outcome(answer=DeliveryAnswer.CHANGED),
    )
    assert step.action is ApprovalAction.DELETE


def test_after_delivery_gives_up_after_the_expiry():
    late = observed(approval_body(**ALICE), now=3_600 + GRACE)
    step = after_delivery(
        late, parse_approval(approval_body(**ALICE)).spec, Outcome(answer=DeliveryAnswer.NONE, message="no pod")
    )
    assert status_of(step)["phase"] == "Expired"


def test_after_delivery_backs_off_while_the_agent_is_away():
    spec, nothing = parse_approval(approval_body(**ALICE)).spec, Outcome(answer=DeliveryAnswer.NONE, message="no pod")
    first = after_delivery(observed(approval_body(**ALICE)), spec, nothing)
    status = status_of(first)
    later = [observed(approval_body(status=status, **ALICE), now=now) for now in (NOW + 8, NOW + 400)]
    pauses = [after_delivery(each, spec, nothing).requeue_after for each in later]
    assert [first.requeue_after, *pauses] == [1, 2, 30]


def test_next_step_deletes_a_closed_object_after_its_retention():
    status = withdrawn()
    kept = next_step(observed(approval_body(status=status), lists=False, now=NOW + 100))
    assert (kept.action, kept.state, kept.requeue_after) == (ApprovalAction.NONE, None, DAY - 100)
    assert next_step(observed(approval_body(status=status), lists=False, now=NOW + DAY)).action is ApprovalAction.DELETE
    assert (
        next_step(observed(approval_body(status=status), lists=False, newer=MAX_CLOSED)).action is ApprovalAction.DELETE
    )


def test_next_step_reopens_what_the_agent_still_asks():
    step = next_step(observed(approval_body(status=withdrawn())))
    assert step.state is not None
    assert (step.state.phase, step.state.closed) == (Phase.PENDING, None)


def test_next_step_delivers_a_decision_that_came_with_the_end():
    status = withdrawn()
    assert next_step(observed(approval_body(status=status, **ALICE), lists=False)).action is ApprovalAction.DELIVER
    spec = parse_approval(approval_body(**ALICE)).spec
    ended = after_delivery(
        observed(approval_body(status=status, **ALICE), lists=False), spec, Outcome(answer=DeliveryAnswer.NOT_FOUND)
    )
    final = status_of(ended, status)
    assert next_step(observed(approval_body(status=final, **ALICE), lists=False)).action is ApprovalAction.NONE


def test_next_step_replaces_an_object_whose_arguments_changed():
    other = "sha256:" + "b" * 64
    assert next_step(observed(approval_body(digest=other))).action is ApprovalAction.DELETE
    assert next_step(observed(approval_body(digest=other, **ALICE))).action is ApprovalAction.DELETE


@pytest.mark.parametrize("answers", [(), (DeliveryAnswer.NONE, DeliveryAnswer.INVALID)], ids=["forbidden", "refused"])
def test_escalation_is_not_repeated_after_a_refused_decision(answers):
    status = status_of(next_step(observed(approval_body(), escalate="30m", now=2_400)), now=2_400)
    decision = {"decision": "Approved", "decidedBy": "alice" if answers else AGENT}
    for answer in answers:
        decided = approval_body(status=status, **decision)
        status = status_of(
            after_delivery(
                observed(decided, now=2_500), parse_approval(decided).spec, Outcome(answer=answer, message="no")
            ),
            status,
            now=2_500,
        )
    if not answers:
        status = status_of(next_step(observed(approval_body(status=status, **decision), now=2_500)), status, now=2_500)
    again = next_step(observed(approval_body(status=status), escalate="30m", now=2_600))
    assert not again.escalates
    left = status_of(again, status, now=2_600)
    assert left["escalated"] == format_timestamp(2_400)
    (escalated,) = (each for each in left["conditions"] if each["type"] == "Escalated")
    assert "has been waiting since" in escalated["message"]


def test_escalation_is_not_repeated_after_the_approval_is_open_again():
    """The list of the agent briefly lacks the question."""
    status = status_of(next_step(observed(approval_body(), escalate="30m", now=2_400)), now=2_400)
    status = status_of(next_step(observed(approval_body(status=status), lists=False, now=2_500)), status, now=2_500)
    assert (status["phase"], status["escalated"]) == ("Withdrawn", format_timestamp(2_400))
    again = next_step(observed(approval_body(status=status), escalate="30m", now=2_600))
    assert not again.escalates
    status = status_of(again, status, now=2_600)
    assert (status["phase"], status["escalated"]) == ("Pending", format_timestamp(2_400))


def test_next_step_escalates_once():
    waiting = next_step(observed(approval_body(), escalate="30m"))
    assert (waiting.escalates, waiting.requeue_after) == (False, 600 + 1_800 - NOW)
    step = next_step(observed(approval_body(), escalate="30m", now=2_400))
    assert step.escalates
    status = status_of(step, now=2_400)
    assert [each["type"] for each in status["conditions"]] == ["Decided", "Escalated"]
    assert status["escalated"] == format_timestamp(2_400)
    again = next_step(observed(approval_body(status=status), escalate="30m", now=2_500))
    assert not again.escalates
    assert status_of(again, status, now=2_500) == status
