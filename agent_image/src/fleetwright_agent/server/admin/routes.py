"""The administrators' endpoints to export and to erase the agent's memory. They are not part of A2A.

Only clients that the configuration names as administrators may call them. Other agents may never call them.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Collection
from typing import Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.audit.trail import AuditTrail
from fleetwright_agent.config.callers import PERSON, CallerKind
from fleetwright_agent.server.admin.erasure import Erasure
from fleetwright_agent.server.admin.export import Line, MemoryExport
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable

_logger = logging.getLogger(__name__)
PATH: Final = "/admin/memory"
_LONGEST: Final = 512
_FORBIDDEN: Final = "Only clients that auth.administrators names may export or erase the agent's memory."
_LATER: Final = "The agent's memory cannot be used right now. An erasure that has begun is finished later; try again."
_KINDS: Final = (*(f"{kind}:" for kind in CallerKind), PERSON)


class Admin:
    def __init__(
        self, names: Collection[str], *, erasure: Erasure, export: MemoryExport, audit_trail: AuditTrail
    ) -> None:
        """Args: `names` are the names of clients that are administrators."""
        self._administrators = frozenset(f"{CallerKind.CLIENT}:{name}" for name in names)
        self._erasure = erasure
        self._memory = export
        self._audit_trail = audit_trail
        self._working: set[asyncio.Task[Response | HttpRefusal]] = set()

    @property
    def routes(self) -> list[Route]:
        return [Route(PATH, self._export, methods=["GET"]), Route(PATH, self._erase, methods=["DELETE"])]

    async def _export(self, request: Request) -> Response | HttpRefusal:
        target = self._target(request)
        if not isinstance(target, ErasureTarget):
            return target
        lines = self._memory.lines(target)
        try:
            # Read the first line here, so that an unreadable memory causes an error status, not a truncated response.
            first = await anext(lines)
            await self._audit_trail.note("memory_exported", {"exported_owner": target.owner, "by": _who(request)})
        except (TaskLogUnavailable, MemoryUnusable, OSError):
            _logger.exception("an export could not start")
            return refuse(503, _LATER, headers={"Retry-After": "10"})
        return StreamingResponse(_encoded(first, lines), media_type="application/x-ndjson")

    async def _erase(self, request: Request) -> Response | HttpRefusal:
        target = self._target(request)
        if not isinstance(target, ErasureTarget):
            return target
        # The erasure continues if the caller disconnects.
        working = asyncio.create_task(self._erased(target, _who(request)))
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
        if _who(request) not in self._administrators:
            return refuse(403, _FORBIDDEN)
        owner, context_id = request.query_params.get("owner", ""), request.query_params.get("contextId", "")
        given = [name for name, _ in request.query_params.multi_items()]
        unknown = sorted(set(given) - {"owner", "contextId"})
        if unknown:
            # A misspelt contextId must not erase the data of the whole owner.
            return refuse(400, f"There is no parameter {unknown[0][:40]!r}; the parameters are owner and contextId.")
        if len(given) > len(set(given)):
            # Parsers disagree on which of two values counts, so a proxy may have checked the other value.
            return refuse(400, "A parameter is given twice; give owner and contextId once each.")
        if "contextId" in request.query_params and not context_id:
            return refuse(400, "contextId is empty; leave it out to address everything of the owner.")
        if not owner.startswith(_KINDS) or not all(map(_is_plain, (owner, context_id))):
            return refuse(
                400, "owner must be client:<name>, agent:<namespace>/<name> or user:<name>; contextId is optional."
            )
        return ErasureTarget(owner, context_id)


def _who(request: Request) -> str:
    return str(request.scope["user"].display_name)


def _is_plain(text: str) -> bool:
    return text.isprintable() and len(text) <= _LONGEST


async def _encoded(first: Line, rest: AsyncIterator[Line]) -> AsyncIterator[bytes]:
    yield _line(first)
    async for line in rest:
        yield _line(line)


def _line(line: Line) -> bytes:
    return json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n"
