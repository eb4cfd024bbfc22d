"""The document that delivers a decision, and the agent's answers to it."""

import pytest
from tests.support.operator.approvals import approval_body

from fleetwright_api.spec.approval import parse_approval
from fleetwright_operator.approvals.delivery import DeliveryAnswer, decision_document, edit_problem, parse_outcome


def spec_of(**decision):
    return parse_approval(approval_body(**decision)).spec


@pytest.mark.parametrize(
    "decision",
    [
        pytest.param({"decision": "Approved"}, id="approved"),
        pytest.param({"decision": "Denied", "reason": "too much"}, id="denied with a reason"),
        pytest.param({"decision": "Approved", "arguments": {"order": 8}}, id="approved with an edit"),
    ],
)
def test_decision_document_names_task_and_digest(decision):
    spec = spec_of(decidedBy="alice", **decision)
    bound = {"task": "t-1", "argumentsDigest": spec.request.arguments_digest}
    assert decision_document(spec) == {"decidedBy": "alice", **decision, **bound}


def test_edit_problem_names_the_field_and_the_limit():
    approved = {"decision": "Approved", "decidedBy": "alice"}
    assert edit_problem(spec_of(**approved, arguments={"x": "y"})) == ""
    long = edit_problem(spec_of(**approved, arguments={"x": "y" * 70_000}))
    assert long == "spec.arguments is longer than 65536 bytes; shorten it"


DECIDED = {"outcome": "decided", "decision": "Denied", "decidedBy": "bob", "decidedAt": "2026-03-01T12:00:00Z"}


@pytest.mark.parametrize(
    ("status", "document", "answer"),
    [
        pytest.param(200, {"outcome": "accepted"}, DeliveryAnswer.ACCEPTED, id="accepted"),
        pytest.param(409, DECIDED, DeliveryAnswer.DECIDED, id="decided before"),
        pytest.param(409, {**DECIDED, "decision": "Maybe"}, DeliveryAnswer.NONE, id="an unknown decision"),
        pytest.param(409, {"outcome": "changed"}, DeliveryAnswer.CHANGED, id="changed"),
        pytest.param(404, {"outcome": "notFound"}, DeliveryAnswer.NOT_FOUND, id="the task has ended"),
        pytest.param(404, {"error": "no such path"}, DeliveryAnswer.NONE, id="a server without approvals"),
        pytest.param(422, {"outcome": "invalid", "message": "order: too big"}, DeliveryAnswer.INVALID, id="a bad edit"),
        pytest.param(422, {"outcome": "invalid"}, DeliveryAnswer.INVALID, id="a bad edit without a reason"),
        pytest.param(
            400, {"error": {"message": "arguments: no"}}, DeliveryAnswer.INVALID, id="a decision that it cannot read"
        ),
        pytest.param(400, None, DeliveryAnswer.INVALID, id="a decision that it cannot read, without a reason"),
        pytest.param(503, None, DeliveryAnswer.NONE, id="the agent drains"),
        pytest.param(200, {"outcome": "decided"}, DeliveryAnswer.NONE, id="an outcome that does not fit the status"),
        pytest.param(200, [], DeliveryAnswer.NONE, id="no object"),
    ],
)
def test_parse_outcome_trusts_only_known_answers(status, document, answer):
    assert parse_outcome(status, document).answer is answer


def test_parse_outcome_bounds_the_texts_of_an_agent():
    outcome = parse_outcome(422, {"outcome": "invalid", "message": "a\x1bb" + "x" * 5000})
    assert outcome.message.startswith("a b")
    assert len(outcome.message) == 512
