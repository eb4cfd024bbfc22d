"""The table of Approvals, as `kubectl get` shows it. Pure.

The texts of an Approval come from an agent, so characters that a terminal could interpret are replaced.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from fleetwright_api.spec.approval import parse_approval
from fleetwright_cli.cluster.tables import age, visible

Object = Mapping[str, Any]
"""An Approval as the API server returns it."""
_HEAD: Final = ("NAME", "AGENT", "TOOL", "TITLE", "PHASE", "DECIDED-BY", "AGE")
_TITLE: Final = 48


def ordered(approvals: Iterable[Object]) -> list[Object]:
    """Return the Approvals in order: those that wait come first, and older ones come before newer ones."""
    return sorted(approvals, key=lambda each: (phase_of(each) != "Pending", created_of(each), name_of(each)))


def rows(approvals: Iterable[Object], *, now: datetime, with_namespace: bool) -> list[tuple[str, ...]]:
    """Return the header and one row for each Approval."""
    head = ("NAMESPACE", *_HEAD) if with_namespace else _HEAD
    return [head, *(_row(each, now, with_namespace) for each in approvals)]


def name_of(approval: Object) -> str:
    return str(approval["metadata"]["name"])


def created_of(approval: Object) -> str:
    return str(approval["metadata"].get("creationTimestamp") or "")


def phase_of(approval: Object) -> str:
    return str((approval.get("status") or {}).get("phase") or "Pending")


def decided_at(approval: Object) -> str:
    """Return the time of the decision; empty if there is none, or if the time is unknown."""
    if decided := (approval.get("status") or {}).get("decided"):
        return str(decided)
    # The operator has not reported the decision yet. The API server records the time of each field's last change.
    managers = approval["metadata"].get("managedFields") or ()
    times = [each.get("time") for each in managers if "f:decision" in (each.get("fieldsV1") or {}).get("f:spec", {})]
    return str(times[-1]) if times and times[-1] else ""


def _row(approval: Object, now: datetime, with_namespace: bool) -> tuple[str, ...]:
    view = parse_approval(approval)
    request, title = view.spec.request, visible(view.spec.request.title)
    cells = (
        view.name,
        visible(request.agent),
        visible(request.tool) or "-",
        (title if len(title) <= _TITLE else f"{title[: _TITLE - 1]}…") or "-",
        phase_of(approval),
        visible(view.spec.decided_by or "") or "-",
        age(created_of(approval), now),
    )
    return (view.namespace, *cells) if with_namespace else cells
