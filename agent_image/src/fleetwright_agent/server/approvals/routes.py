"""The routes of the operator: open approvals, with a long poll, and the decisions of people.

They are not part of A2A.
"""

import logging
from collections.abc import Callable
from typing import Any, Final

from a2a.utils.errors import JSONParseError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.errors import HttpRefusal, ServiceUnavailable, refuse
from fleetwright_a2a.http.envelope import parse
from fleetwright_agent.server.approvals.access import PATH
from fleetwright_agent.server.approvals.decision import parse_decision
from fleetwright_agent.server.approvals.decision_acceptor import DecisionAcceptor, DecisionOutcome, DecisionResult
from fleetwright_agent.server.approvals.open_approvals import OpenApprovals
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable

_logger = logging.getLogger(__name__)
LONGEST_WAIT: Final = 25.0
"""In seconds; shorter than the idle timeouts of common proxies."""
_RETRY: Final = {"Retry-After": "1"}
_LATER: Final = "The agent cannot read or decide approvals right now; send the request again."
_UNCACHED: Final = {"Cache-Control": "no-store"}
_STATUS: Final = {
    DecisionOutcome.ACCEPTED: 200,
    DecisionOutcome.DECIDED: 409,
    DecisionOutcome.CHANGED: 409,
    DecisionOutcome.NOT_FOUND: 404,
    DecisionOutcome.INVALID: 422,
}


def approval_routes(
    index: OpenApprovals, acceptor: DecisionAcceptor, *, unavailable: Callable[[], str | None]
) -> list[Route]:
    """Return the routes. Args: `unavailable` returns why the agent accepts no decision right now, or None."""

    async def read(request: Request) -> Response | HttpRefusal:
        try:
            seconds, after = _seconds(request), request.query_params.get("after")
        except ValueError as error:
            return refuse(400, str(error))
        if unavailable():
            return refuse(503, _LATER, headers=_RETRY)
        try:
            page = await index.page(after, seconds=seconds)
        except TaskLogUnavailable:
            return refuse(503, _LATER, headers=_RETRY)
        return JSONResponse({"version": page.version, "open": list(page.open)}, headers=_UNCACHED)

    async def decide(request: Request) -> Response | HttpRefusal:
        try:
            decision = parse_decision(_object(await request.body()))
        except JSONParseError as error:
            return refuse(400, error.message)
        except ValueError as error:
            return refuse(400, f"The decision is not valid: {error}.")
        if unavailable():
            return refuse(503, _LATER, headers=_RETRY)
        try:
            result = await acceptor.decide(request.path_params["ask"], decision)
        except ServiceUnavailable as error:
            return refuse(503, error.message, headers={"Retry-After": str(error.retry_seconds)})
        except (TaskLogUnavailable, MemoryUnusable):
            _logger.exception("a decision could not be stored")
            return refuse(503, _LATER, headers=_RETRY)
        return JSONResponse(_body(result), _STATUS[result.outcome])

    return [
        Route(PATH, read, methods=["GET"]),
        Route(f"{PATH}/{{ask:path}}/decision", decide, methods=["POST"]),
    ]


def _seconds(request: Request) -> float:
    """Return the longest wait of a read. Raises: ValueError."""
    unknown = sorted({*request.query_params} - {"after", "wait"})
    if unknown:
        raise ValueError(f"There is no parameter {unknown[0][:40]!r}; the parameters are after and wait.")
    given = request.query_params.get("wait", "0")
    seconds = float(given) if given.isascii() and given.isdigit() and len(given) < 3 else -1.0
    if not 0 <= seconds <= LONGEST_WAIT:
        raise ValueError(f"wait must be a number of seconds from 0 to {LONGEST_WAIT:g}.")
    return seconds


def _object(body: bytes) -> dict[str, Any]:
    """Raises: JSONParseError."""
    value = parse(body)
    if not isinstance(value, dict):
        raise JSONParseError("The body must be a JSON object.")
    return value


def _body(result: DecisionResult) -> dict[str, str]:
    body = {"outcome": result.outcome.value}
    if result.outcome is DecisionOutcome.DECIDED:
        return {
            **body,
            "decision": result.decision,
            "decidedBy": result.decided_by,
            "decidedAt": result.decided_at,
        }
    return {**body, "message": result.problem} if result.problem else body
