"""The document that delivers a decision to an agent, and the agent's answer.

Answers are untrusted, so each field is validated.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_api.spec.approval import APPROVED, DECISIONS, ApprovalSpec, ApprovalView
from fleetwright_kube.cached_object import CachedObject

MAX_EDIT: Final = 64 * 1024
"""The largest number of bytes of edited arguments."""
_TEXT: Final = 512


class DeliveryAnswer(StrEnum):
    ACCEPTED = "accepted"
    DECIDED = "decided"
    """Another decision was accepted before."""
    CHANGED = "changed"
    """The arguments of the call are not those of the Approval."""
    NOT_FOUND = "notFound"
    """The task does not wait for this decision, or has ended."""
    INVALID = "invalid"
    """The agent refuses the decision: edited arguments violate the tool's schema or the agent's policy."""
    NONE = "none"
    """The agent could not be reached, or could not answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    answer: DeliveryAnswer
    message: str = ""
    """For `INVALID` and `NONE`: the reason."""
    decision: str = ""
    decided_by: str = ""
    decided_at: str = ""


Deliver = Callable[[CachedObject, Sequence[str], str, Mapping[str, Any]], Awaitable[Outcome]]
"""Sends a decision. The arguments are the pod, the tokens to try, the id of the question, and the document."""


def decision_document(spec: ApprovalSpec) -> dict[str, Any]:
    """Return the body of the request for a spec with a decision."""
    return {
        "task": spec.request.task,
        "decision": spec.decision,
        "decidedBy": spec.decided_by,
        **({"reason": spec.reason} if spec.reason else {}),
        **({"arguments": dict(spec.arguments)} if spec.arguments is not None else {}),
        "argumentsDigest": spec.request.arguments_digest,
    }


def unknown_field_problem(approval: ApprovalView) -> str:
    """Return why an approval is unclear: it may have its edited arguments in an unknown field. Empty if it is clear."""
    if not approval.unknown or approval.spec.decision != APPROVED:
        return ""
    return f"spec has no field {approval.unknown[0][:40]!r}; edited arguments belong in spec.arguments"


def edit_problem(spec: ApprovalSpec) -> str:
    """Return why the edited arguments cannot be sent; empty if they can."""
    if spec.arguments is None or len(canonical_json(spec.arguments).encode()) <= MAX_EDIT:
        return ""
    return f"spec.arguments is longer than {MAX_EDIT} bytes; shorten it"


def parse_outcome(status: int, document: Any) -> Outcome:
    """Return the outcome for the status and the body of a response."""
    told: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    match status, told.get("outcome"):
        case 200, DeliveryAnswer.ACCEPTED:
            return Outcome(answer=DeliveryAnswer.ACCEPTED)
        case 409, DeliveryAnswer.DECIDED if told.get("decision") in DECISIONS:
            texts = {key: _text(told.get(key)) for key in ("decision", "decidedBy", "decidedAt")}
            return Outcome(
                answer=DeliveryAnswer.DECIDED,
                decision=texts["decision"],
                decided_by=texts["decidedBy"],
                decided_at=texts["decidedAt"],
            )
        case 409, DeliveryAnswer.CHANGED:
            return Outcome(answer=DeliveryAnswer.CHANGED)
        case 404, DeliveryAnswer.NOT_FOUND:
            return Outcome(answer=DeliveryAnswer.NOT_FOUND)
        case 422, DeliveryAnswer.INVALID:
            return Outcome(answer=DeliveryAnswer.INVALID, message=_text(told.get("message")) or "no reason given")
        case 400, _:  # The agent cannot read the decision, for example a number that JSON does not carry exactly.
            error = told.get("error")
            message = _text(error.get("message")) if isinstance(error, Mapping) else ""
            return Outcome(answer=DeliveryAnswer.INVALID, message=message or "the agent cannot read the decision")
        case _:
            return Outcome(answer=DeliveryAnswer.NONE, message=f"the agent answered with HTTP {status}")


def _text(value: Any) -> str:
    text = value[:_TEXT] if isinstance(value, str) else ""
    return "".join(each if each.isprintable() else " " for each in text)
