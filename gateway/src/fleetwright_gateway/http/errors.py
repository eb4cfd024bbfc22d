"""Error responses: problem details (RFC 9457) for the gateway's own API, and the errors of ARD for its paths.

Every error has one of the two formats, including those of the framework. `PATHS_OF_ARD` decides which one.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from fleetwright_gateway.http.admission import Refused

PATHS_OF_ARD: Final = frozenset({"agents", "explore", "search"})
"""The first segments of the paths that ARD defines."""
_PROBLEM: Final = "application/problem+json"
_ERROR_CODES: Final = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    308: "NOT_FOUND",
    404: "NOT_FOUND",
    405: "INVALID_ARGUMENT",
    410: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RATE_LIMIT_EXCEEDED",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
}


def error_response(path: str, status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    if path.split("/", 2)[1:2] and path.split("/", 2)[1] in PATHS_OF_ARD:
        body: dict[str, object] = {"errorCode": _ERROR_CODES.get(status, "INTERNAL_ERROR"), "message": detail}
        return JSONResponse(body, status_code=status, headers=dict(headers or {}))
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}), media_type=_PROBLEM)


def describe(error: RequestValidationError) -> str:
    """Name the first wrong field and what is wrong with it. The value is not repeated."""
    first = error.errors()[0]
    # The first part says where the field is: in the query, the path or the body.
    place = ".".join(str(part) for part in first["loc"][1:])
    return f"{place or 'the request'}: {first['msg']}"


def refuse_unknown_parameters(request: Request) -> None:
    """Refuse a misspelt or repeated parameter, which would otherwise widen the answer. Raises: Refused."""
    known = sorted(str(each.alias) for each in request.scope["route"].dependant.query_params)
    unknown = sorted(set(request.query_params) - set(known))
    if unknown:
        named = ", ".join(known) or "none"
        raise Refused(400, f"There is no parameter {unknown[0][:40]!r}; the parameters are: {named}.")
    given = [name for name, _ in request.query_params.multi_items()]
    if repeated := next((name for name in given if given.count(name) > 1), ""):
        raise Refused(400, f"The parameter {repeated!r} is given more than once; give it once.")


def install_errors(app: FastAPI) -> None:
    async def respond(request: Request, error: Exception) -> Response:
        path = request.url.path
        if isinstance(error, Refused):
            return error_response(path, error.status, error.sentence, error.headers)
        if isinstance(error, RequestValidationError):
            return error_response(path, 400, describe(error))
        if isinstance(error, HTTPException):
            detail = "There is nothing at this path." if error.status_code == 404 else str(error.detail)
            return error_response(path, error.status_code, detail, error.headers)
        raise error

    for kind in (Refused, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, respond)
