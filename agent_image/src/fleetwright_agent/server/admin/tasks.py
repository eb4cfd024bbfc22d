"""The administrators' list of the newest tasks of all callers: who asked for what, and why a task did not succeed."""

import asyncio
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from a2a.types.a2a_pb2 import Message, Role
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_a2a.task_events import RESTING, state_word
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.admin.access import OWNER_RULE, AdministratorAccess, owner_of, who
from fleetwright_agent.server.ops.task_outcomes import cost_of
from fleetwright_agent.server.tasks.messages import text_of
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.tasks.records import StoredTask, TaskQuery
from fleetwright_agent.storage.tasks.task_log import TaskQueries

_logger = logging.getLogger(__name__)
TASKS_PATH: Final = "/admin/tasks"
MOST_CHARACTERS: Final = 300
_MARGIN: Final = 8192
"""Characters beyond the shown part that are redacted too, because a truncated secret would not be recognised."""
_MOST_TASKS: Final = 1000
_DEFAULT_TASKS: Final = 20
_LATER: Final = "The agent's memory cannot be used right now; try again."


class TaskAdministration:
    def __init__(self, access: AdministratorAccess, log: TaskQueries, *, audit_trail: AuditTrail) -> None:
        self._access = access
        self._log = log
        self._audit_trail = audit_trail

    @property
    def routes(self) -> list[Route]:
        return [Route(TASKS_PATH, self._read, methods=["GET"])]

    async def _read(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("owner", "limit"))
        if isinstance(parameters, HttpRefusal):
            return parameters
        owner, limit = owner_of(parameters.get("owner", "")), parameters.get("limit", str(_DEFAULT_TASKS))
        if owner is None and "owner" in parameters:
            return refuse(400, f"{OWNER_RULE}; without owner, the answer has the tasks of all owners.")
        if not (limit.isascii() and limit.isdecimal() and len(limit) <= len(str(_MOST_TASKS))) or not (
            0 < int(limit) <= _MOST_TASKS
        ):
            return refuse(400, f"limit must be a number from 1 to {_MOST_TASKS}.")
        try:
            found = await self._newest_tasks(owner, int(limit))
            await self._audit_trail.note("tasks_listed", {"listed_owner": owner or "", "by": who(request)})
        except (TaskLogUnavailable, OSError):
            _logger.exception("the tasks cannot be read")
            return refuse(503, _LATER, headers={"Retry-After": "10"})
        return JSONResponse({"tasks": found}, headers={"Cache-Control": "no-store"})

    async def _newest_tasks(self, owner: str | None, most: int) -> list[dict[str, Any]]:
        """Raises: TaskLogUnavailable."""
        found: list[dict[str, Any]] = []
        query: TaskQuery | None = TaskQuery(owner=owner, size=most)
        while query is not None:
            page = await self._log.page(query)
            # A page holds whole tasks, up to some MiB, so each is reduced to its document before the next is read.
            # In a thread, because redaction takes milliseconds for each large text.
            found += await asyncio.to_thread(self._describe_tasks, page.tasks)
            has_more = page.following is not None and len(found) < most
            query = TaskQuery(owner=owner, size=most - len(found), after=page.following) if has_more else None
        return found

    def _describe_tasks(self, tasks: Sequence[StoredTask]) -> list[dict[str, Any]]:
        return [task_document(stored, redact=self._audit_trail.redact) for stored in tasks]


def task_document(stored: StoredTask, *, redact: Callable[[Any], Any]) -> dict[str, Any]:
    """Return a task as a JSON object.

    Args: `redact` replaces the secrets in a text.
    """
    task, status = stored.task, stored.task.status
    first = next((message for message in task.history if message.role == Role.ROLE_USER), Message())
    rests = status.state in RESTING
    cost: Decimal | None = cost_of(task) if rests else None
    return {
        "id": task.id,
        "owner": stored.owner,
        "contextId": task.context_id,
        "state": state_word(status.state),
        "updatedAt": datetime.fromtimestamp(stored.updated_ns // 10**9, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "costUsd": None if cost is None else f"{cost:f}",
        "request": _preview(text_of(first), redact),
        "reason": _preview(text_of(status.message), redact) if rests else "",
    }


def _preview(text: str, redact: Callable[[Any], Any]) -> str:
    """Return the beginning of a text, without secrets."""
    kept = text[: MOST_CHARACTERS + _MARGIN]
    words = kept.split()
    if len(kept) < len(text) and len(words) > 1:
        # The redaction of longer secrets before it may move the last word, which is truncated, into the shown part.
        kept = kept.removesuffix(words[-1])
    shown = str(redact(kept)).encode(errors="replace").decode()
    return shown if len(shown) <= MOST_CHARACTERS else f"{shown[: MOST_CHARACTERS - 1]}…"
