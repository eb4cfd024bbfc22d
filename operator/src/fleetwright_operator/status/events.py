"""Selects the transitions of conditions that become Kubernetes Events. Pure.

Events are for users of `kubectl describe`: what failed, what recovered, and that the object is ready. Progress does not
become an Event. Examples are a stage that waits for another one, a rollout, and a preflight.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_operator.status.conditions import ABNORMAL, DECIDED, ESCALATED, PROGRESS, READY

_MESSAGE_LIMIT = 1024
COMPONENT = "fleetwright-operator"


@dataclass(frozen=True, slots=True)
class Notice:
    """One line of `kubectl describe`."""

    condition: str
    warning: bool
    reason: str
    message: str


def notices(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    old = {condition["type"]: condition for condition in before}
    new = {condition["type"]: condition for condition in after}
    for kind, condition in new.items():
        known = old.get(kind)
        if known is None or (known["status"], known["reason"]) != (condition["status"], condition["reason"]):
            yield from _entered(condition, known)
    for kind in old.keys() - new.keys() - {ESCALATED}:
        yield Notice(kind, False, f"{kind}Ended", f"no longer {kind}: {old[kind]['reason']}")


def _entered(condition: Mapping[str, Any], known: Mapping[str, Any] | None) -> Iterator[Notice]:
    kind, status, reason, message = (condition[key] for key in ("type", "status", "reason", "message"))
    if kind in ABNORMAL:
        yield Notice(kind, True, reason, message)
    elif kind == DECIDED:
        if reason not in PROGRESS:
            yield Notice(kind, reason == "Expired", reason, message)
    elif kind == READY:
        # If the object is not ready, the Event of the failing stage explains why.
        if status == "True":
            yield Notice(kind, False, reason, message or "all children are in place and serving")
    elif status == "False" and reason not in PROGRESS:
        yield Notice(kind, True, reason, message)
    elif status == "True" and known is not None and known["status"] == "False" and known["reason"] not in PROGRESS:
        yield Notice(kind, False, reason, message or f"{kind} again")


def event_manifest(notice: Notice, about: Mapping[str, Any], *, now: str) -> dict[str, Any]:
    """Return the Event. Equal notices have equal names, so repetitions increase the count of one Event.

    Args: `about` has the kind, namespace, name and uid of the object.
    """
    name = f"{about['name']}.{short_hash([about['uid'], notice.condition, notice.warning, notice.reason])}"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": name, "namespace": about["namespace"]},
        "involvedObject": {"apiVersion": names.API_VERSION, **about},
        "type": "Warning" if notice.warning else "Normal",
        "reason": notice.reason,
        "message": notice.message[:_MESSAGE_LIMIT] or notice.reason,
        "source": {"component": COMPONENT},
        "reportingComponent": COMPONENT,
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
