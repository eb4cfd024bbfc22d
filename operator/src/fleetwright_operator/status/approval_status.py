"""The status of an Approval, as its state between two reconciles and as the API stores it. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.status.conditions import DECIDED, DELIVERED, ESCALATED, Condition, condition_list


class Phase(StrEnum):
    PENDING = "Pending"
    APPROVED = "Approved"
    DENIED = "Denied"
    EXPIRED = "Expired"
    WITHDRAWN = "Withdrawn"
    """The task ended, or continued, without this decision."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalState:
    """Times are in seconds since the epoch."""

    phase: Phase
    decided: Condition
    delivery: Condition | None = None
    """None until there is a decision."""
    delivered: int | None = None
    closed: int | None = None
    escalated: int | None = None
    escalation: str = ""
    """The message of the escalation. It is made anew from the request, and not read from the status."""


PENDING = ApprovalState(phase=Phase.PENDING, decided=Condition(DECIDED, False, "Pending", "waits for a decision"))


def stored_approval_state(status: Mapping[str, Any]) -> ApprovalState | None:
    """Return the state from a status; None for a new Approval, or if the status is damaged."""
    try:
        found = {each["type"]: _condition(each) for each in status["conditions"]}
        return ApprovalState(
            phase=Phase(status["phase"]),
            decided=found[DECIDED],
            delivery=found.get(DELIVERED),
            delivered=_time(status, "delivered"),
            closed=_time(status, "closed"),
            escalated=_time(status, "escalated"),
        )
    except (KeyError, TypeError, ValueError):
        return None


def approval_status(previous: Mapping[str, Any], state: ApprovalState, *, generation: int, now: str) -> dict[str, Any]:
    waits = state.phase is Phase.PENDING and state.escalated is not None
    escalation = [Condition(ESCALATED, True, "NotDecided", state.escalation)] if waits else []
    conditions = [state.decided, *([state.delivery] if state.delivery else []), *escalation]
    times = {"delivered": state.delivered, "closed": state.closed, "escalated": state.escalated}
    listed = condition_list(conditions, previous=previous.get("conditions", ()), generation=generation, now=now)
    decided = [each["lastTransitionTime"] for each in listed if (each["type"], each["status"]) == (DECIDED, "True")]
    return {
        "phase": state.phase.value,
        **({"decided": decided[0]} if decided else {}),
        **{name: format_timestamp(moment) for name, moment in times.items() if moment is not None},
        "observedGeneration": generation,
        "conditions": listed,
    }


def _condition(stored: Mapping[str, Any]) -> Condition:
    status = {"True": True, "False": False}.get(stored["status"])
    return Condition(stored["type"], status, stored["reason"], stored["message"])


def _time(status: Mapping[str, Any], name: str) -> int | None:
    return parse_timestamp(status[name]) if name in status else None
