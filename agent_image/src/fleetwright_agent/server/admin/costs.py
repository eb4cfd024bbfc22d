"""The administrators' report of the cost of model calls: by day, caller, model and purpose."""

import logging
import re
import time
from datetime import UTC, datetime
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, refuse
from fleetwright_agent.server.admin.access import AdministratorAccess
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.usage import DailyUsage, UsageStore

_logger = logging.getLogger(__name__)
COSTS_PATH: Final = "/admin/costs"
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_LATER: Final = "The agent's memory cannot be used right now; try again."


class CostAdministration:
    def __init__(self, access: AdministratorAccess, usage: UsageStore) -> None:
        self._access = access
        self._usage = usage

    @property
    def routes(self) -> list[Route]:
        return [Route(COSTS_PATH, self._read, methods=["GET"])]

    async def _read(self, request: Request) -> Response | HttpRefusal:
        parameters = self._access.parameters(request, ("since",))
        if isinstance(parameters, HttpRefusal):
            return parameters
        try:
            since = _seconds(parameters["since"]) if "since" in parameters else 0.0
        except ValueError:
            return refuse(400, "since must be a day in UTC, such as 2026-11-01.")
        try:
            days = await self._usage.daily(since)
        except MemoryUnusable:
            _logger.exception("the costs cannot be read")
            return refuse(503, _LATER, headers={"Retry-After": "10"})
        return JSONResponse({"costs": [_row(each) for each in days]}, headers={"Cache-Control": "no-store"})


def _seconds(day: str) -> float:
    """Return the beginning of a day. Raises: ValueError."""
    if not _DAY.fullmatch(day):
        raise ValueError(day)
    return datetime.strptime(day, "%Y-%m-%d").replace(tzinfo=UTC).timestamp()


def _row(usage: DailyUsage) -> dict[str, Any]:
    amounts = usage.sum
    return {
        "day": time.strftime("%Y-%m-%d", time.gmtime(usage.day)),
        "caller": usage.caller,
        "model": usage.model,
        "purpose": usage.purpose,
        "calls": amounts.calls,
        "inputTokens": amounts.input_tokens,
        "outputTokens": amounts.output_tokens,
        "cacheReadTokens": amounts.cache_read_tokens,
        "cacheWriteTokens": amounts.cache_write_tokens,
        "unpricedCalls": amounts.unpriced,
        "usd": f"{amounts.usd:f}",
    }
