"""The last calls with which an agent asked other agents, as a table. Pure."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from fleetwright_cli.cluster.tables import age, render, visible

DELEGATIONS_PATH: Final = "/admin/delegations"
STATUSES: Final = ("Pending", "Dispatched", "Completed", "Failed")
_HEAD: Final = ("AGE", "STATUS", "PEER", "OWNER", "TASK", "PEER TASK", "REQUEST", "RESULT")
_PREVIEW: Final = 40
_ID: Final = 8
"""The number of characters of a task's id. `fleetwright logs` accepts these."""


def delegations_table(delegations: Sequence[Mapping[str, Any]], now: datetime) -> str:
    """Return a row for each call, in the given order. A failed call has its error in place of the result."""
    return render([_HEAD, *(_row(each, now) for each in delegations)])


def _row(call: Mapping[str, Any], now: datetime) -> tuple[str, ...]:
    names = (_text(call, key) for key in ("status", "peer", "owner"))
    tasks = (_text(call, key)[:_ID] for key in ("taskId", "peerTaskId"))
    result = call.get("error") or call.get("result")
    return (age(str(call.get("beganAt")), now), *names, *tasks, _preview(call.get("request")), _preview(result))


def _text(call: Mapping[str, Any], key: str) -> str:
    return visible(str(call.get(key) or "-"))


def _preview(text: object) -> str:
    shown = visible(str(text or "-"))
    return shown if len(shown) <= _PREVIEW else f"{shown[: _PREVIEW - 1]}…"
