"""The administrators' endpoints to export and to erase the agent's memory. They are not part of A2A.

Only clients that the configuration names as administrators may call them. Other agents may never call them.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.server.admin.access import OWNER_RULE, AdministratorAccess, is_plain, owner_of, who
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.export import Line, MemoryExport
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable

_logger = logging.getLogger(__name__)
PATH: Final = "/admin/memory"
_LATER: Final = "The agent's memory cannot be used right now. An erasure that has begun is finished later; try again."


class Admin:
    def __init__(
        self,
        access: AdministratorAccess,
        *,
        erasure: Erasure,
        export: MemoryExport,
        audit_trail: AuditTrail,
        more: Sequence[Route] = (),
    ) -> None:
        """Args: `more` are the other endpoints of administrators."""
        self._access = access
        self._erasure = erasure
        self._memory = export
        self._audit_trail = audit_trail
        self._more = more
        self._working: set[asyncio.Task[Response | HttpRefusal]] = set()

    @property
    def routes(self) -> list[Route]:
        own = [Route(PATH, self._export, methods=["GET"]), Route(PATH, self._erase, methods=["DELETE"])]
        return [*own, *self._more]

    async def _export(self, request: Request) -> Response | HttpRefusal:
        target = self._target(request)
        if not isinstance(target, ErasureTarget):
            return target
        lines = self._memory.lines(target)
        try:
            # Read the first line here, so that an unreadable memory causes an error status, not a truncated response.
            first = await anext(lines)
            await self._audit_trail.note("memory_exported", {"exported_owner": target.owner, "by": who(request)})
        except (TaskLogUnavailable, MemoryUnusable, OSError):
            _logger.exception("an export could not start")
            return refuse(503, _LATER, headers={"Retry-After": "10"})
        return StreamingResponse(_encoded(first, lines), media_type="application/x-ndjson")

    async def _erase(self, request: Request) -> Response | HttpRefusal:
        target = self._target(request)
        if not isinstance(target, ErasureTarget):
            return target
        # The erasure continues if the caller disconnects.
        working = asyncio.create_task(self._erased(target, who(request)))
        self._working.add(working)
        working.add_done_callback(self._working.discard)
        return await asyncio.shield(working)

    async def _erased(self, target: ErasureTarget, asked_by: str) -> Response | HttpRefusal:
        try:
            return JSONResponse(dict(await self._erasure.erase(target, asked_by=asked_by)))
        except (TaskLogUnavailable, MemoryUnusable, OSError):
            _logger.exception("an erasure is not complete")
            return refuse(503, _LATER, headers={"Retry-After": "10"})

    def _target(self, request: Request) -> ErasureTarget | HttpRefusal:
        # A misspelt contextId is refused, so that it does not erase the data of the whole owner.
        parameters = self._access.parameters(request, ("owner", "contextId"))
        if isinstance(parameters, HttpRefusal):
            return parameters
        owner, context_id = owner_of(parameters.get("owner", "")), parameters.get("contextId", "")
        if "contextId" in parameters and not context_id:
            return refuse(400, "contextId is empty; leave it out to address everything of the owner.")
        if owner is None or not is_plain(context_id):
            return refuse(400, f"{OWNER_RULE}; contextId is optional.")
        return ErasureTarget(owner, context_id)


async def _encoded(first: Line, rest: AsyncIterator[Line]) -> AsyncIterator[bytes]:
    yield _line(first)
    async for line in rest:
        yield _line(line)


def _line(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
