"""The table of Approvals, as `kubectl get` shows it. Pure.

The texts of an Approval come from an agent, so characters that a terminal could interpret are replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from fleetwright_api.spec.approval import parse_approval

Object = Mapping[str, Any]
"""An Approval as the API server returns it."""
_HEAD: Final = ("NAME", "AGENT", "TOOL", "TITLE", "PHASE", "DECIDED-BY", "AGE")
_TITLE: Final = 48
_UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))
_LEAST: Final = 2
"""The smallest number that is shown with a unit, so that 90 seconds are `90s` and not `1m`."""


def ordered(approvals: Iterable[Object]) -> list[Object]:
    """Return the Approvals in order: those that wait come first, and older ones come before newer ones."""
    return sorted(approvals, key=lambda each: (phase_of(each) != "Pending", created_of(each), name_of(each)))


def rows(approvals: Iterable[Object], *, now: datetime, with_namespace: bool) -> list[tuple[str, ...]]:
    """Return the header and one row for each Approval."""
    head = ("NAMESPACE", *_HEAD) if with_namespace else _HEAD
    return [head, *(_row(each, now, with_namespace) for each in approvals)]


def render(table: Sequence[Sequence[str]], *, widths: Sequence[int] = ()) -> str:
    """Return the rows as text. Args: `widths` are the smallest widths of the columns."""
    wide = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    wide = [max(each, least) for each, least in zip(wide, widths or wide, strict=True)]
    lines = ("   ".join(cell.ljust(width) for cell, width in zip(row, wide, strict=True)).rstrip() for row in table)
    return "\n".join(lines)


def widths_of(table: Sequence[Sequence[str]]) -> list[int]:
    return [max(len(row[column]) for row in table) for column in range(len(table[0]))]


def visible(text: str) -> str:
    """Return a text in one line, in which characters that are not printable are replaced."""
    return "".join(each if each.isprintable() else " " if each in "\n\t" else "\ufffd" for each in text)


def name_of(approval: Object) -> str:
    return str(approval["metadata"]["name"])


def created_of(approval: Object) -> str:
    return str(approval["metadata"].get("creationTimestamp") or "")


def phase_of(approval: Object) -> str:
    return str((approval.get("status") or {}).get("phase") or "Pending")


def decided_at(approval: Object) -> str:
    """Return the time of the decision; empty if there is none, or if the time is unknown."""
    conditions = (approval.get("status") or {}).get("conditions") or ()
    stated = [each for each in conditions if each["type"] == "Decided" and each["status"] == "True"]
    if stated:
        return str(stated[0]["lastTransitionTime"])
    # The operator has not reported the decision yet. The API server records the time of each field's last change.
    managers = approval["metadata"].get("managedFields") or ()
    times = [each.get("time") for each in managers if "f:decision" in (each.get("fieldsV1") or {}).get("f:spec", {})]
    return str(times[-1]) if times and times[-1] else ""


def age(created: str, now: datetime) -> str:
    """Return the time since the creation with one unit, such as `90s` or `5m`."""
    try:
        then = datetime.strptime(created, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC)
    except ValueError:
        return "-"
    seconds = max(0, int((now - then).total_seconds()))
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= _LEAST * size), (1, "s"))
    return f"{seconds // size}{unit}"


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
