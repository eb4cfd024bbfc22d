"""The table of Approvals, as `kubectl get` shows it. Pure.

The texts of an Approval come from an agent, so characters that a terminal could interpret are replaced.
"""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final

from fleetwright_api.spec.approval import parse_approval
from fleetwright_cli.cluster.tables import age, render, time_left, visible

Object = Mapping[str, Any]
"""An Approval as the API server returns it."""
_HEAD: Final = ("NAME", "AGENT", "TOOL", "TITLE", "REQUESTED-BY", "PHASE", "DECIDED-BY", "EXPIRES", "AGE")
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
        visible(request.requested_by) or "-",
        phase_of(approval),
        visible(view.spec.decided_by or "") or "-",
        time_left(request.expires_at or "", now) if phase_of(approval) == "Pending" else "-",
        age(created_of(approval), now),
    )
    return (view.namespace, *cells) if with_namespace else cells


def describe_approval(approval: Object, *, now: datetime) -> str:
    """Return everything that a person needs for a decision, and what became of it. Pure."""
    view = parse_approval(approval)
    spec, request, status = view.spec, view.spec.request, approval.get("status") or {}
    hidden = "too long, or with secrets: not shown"
    facts = {
        "Name": view.name,
        "Agent": request.agent,
        "Tool": request.tool or "-",
        "Title": request.title or "-",
        "Requested by": " via ".join([request.requested_by, *request.chain]),
        "Phase": phase_of(approval),
        "Created": f"{created_of(approval)} ({age(created_of(approval), now)} ago)",
        "Expires": request.expires_at or "never",
        "May not decide": ", ".join(request.forbidden_deciders) or "-",
        "Task": request.task,
    }
    if spec.decision is not None:
        when = decided_at(approval)
        facts["Decision"] = f"{spec.decision} by {spec.decided_by or 'an unknown user'}{f' at {when}' if when else ''}"
        facts["Reason"] = spec.reason or "-"
    delivered = next((each for each in status.get("conditions") or () if each["type"] == "Delivered"), None)
    if delivered is not None:
        facts["Delivered"] = f"{delivered['status']} ({delivered['reason']}) {delivered.get('message', '')}".rstrip()
    blocks = [render([(f"{name}:", visible(value)) for name, value in facts.items()])]
    blocks.append(_block("Preview", request.preview or "-"))
    blocks.append(_block("Arguments", _json(request.arguments) if request.arguments is not None else hidden))
    if spec.arguments is not None:
        blocks.append(_block("Edited arguments", _json(spec.arguments)))
    blocks.append(f"The log of the task: kubectl fleetwright logs {visible(request.task)}")
    return "\n\n".join(blocks)


def _block(title: str, text: str) -> str:
    return "\n".join([f"{title}:", *(f"  {visible(line)}" for line in text.splitlines())])


def _json(arguments: Mapping[str, Any]) -> str:
    return json.dumps(arguments, indent=2, ensure_ascii=False)
