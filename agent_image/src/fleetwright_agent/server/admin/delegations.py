"""The administrators' list of the last calls with which the agent asked other agents."""

import logging
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.admin.access import OWNER_RULE, AdministratorAccess, owner_of, who
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.open_questions import PeerCall, PeerCalls, PeerCallStatus

_logger = logging.getLogger(__name__)
DELEGATIONS_PATH: Final = "/admin/delegations"
_STATUSES: Final = tuple(status.value for status in PeerCallStatus)
_LATER: Final = "The agent's memory cannot be used right now; try again."


class DelegationAdministration:
    def __init__(self, access: AdministratorAccess, calls: PeerCalls, *, audit_trail: AuditTrail) -> None:
        self._access = access
        self._calls = calls
        self._audit_trail = audit_trail

    @property
    def routes(self) -> list[Route]:
        return [Route(DELEGATIONS_PATH, self._read, methods=["GET"])]

    async def _read(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("owner", "status"))
        if isinstance(parameters, HttpRefusal):
            return parameters
        owner, status = owner_of(parameters.get("owner", "")), parameters.get("status")
        if owner is None and "owner" in parameters:
            return refuse(400, f"{OWNER_RULE}; without owner, the answer has the delegations of all owners.")
        if status is not None and status not in _STATUSES:
            return refuse(400, f"status must be one of {', '.join(_STATUSES)}.")
        try:
            found = await self._calls.of(owner or "")
            await self._audit_trail.note("delegations_listed", {"listed_owner": owner or "", "by": who(request)})
        except (MemoryUnusable, OSError):
            _logger.exception("the delegations cannot be read")
            return refuse(503, _LATER, headers={"Retry-After": "10"})
        documents = [delegation_document(each) for each in found if status in (None, each.status.value)]
        return JSONResponse({"delegations": documents}, headers={"Cache-Control": "no-store"})


def delegation_document(call: PeerCall) -> dict[str, Any]:
    """Return a call to another agent as a JSON object. `endedAt` is None if the call has not ended."""
    failed = call.status is PeerCallStatus.FAILED
    return {
        "id": call.id,
        "owner": call.owner,
        "contextId": call.context_id,
        "taskId": call.task_id,
        "peer": call.peer,
        "peerTaskId": call.peer_task_id or None,
        "status": call.status.value,
        "request": call.request,
        "result": "" if failed else call.result,
        "error": call.result if failed else "",
        "beganAt": _timestamp(call.began_at),
        "endedAt": None if call.ended_at is None else _timestamp(call.ended_at),
    }


def _timestamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
