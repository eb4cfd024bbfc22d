"""Error responses of the registry as problem details (RFC 9457), for every error, including those of the framework."""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from fleetwright_gateway.http.admission import Refused

_TYPE = "application/problem+json"


def problem(status: int, detail: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    body = {"type": "about:blank", "title": HTTPStatus(status).phrase, "status": status, "detail": detail}
    return JSONResponse(body, status_code=status, headers=dict(headers or {}), media_type=_TYPE)


def describe(error: RequestValidationError) -> str:
    """Name the first wrong parameter and what is wrong with it. The value is not repeated."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in {"query", "body", "path"})
    return f"{place or 'The request'}: {first['msg']}"


def install_problems(app: FastAPI) -> None:
    async def refused(_: Request, error: Exception) -> Response:
        if isinstance(error, Refused):
            return problem(error.status, error.sentence, error.headers)
        if isinstance(error, RequestValidationError):
            return problem(400, describe(error))
        if isinstance(error, HTTPException):
            return problem(error.status_code, str(error.detail), error.headers)
        raise error

    for kind in (Refused, RequestValidationError, HTTPException):
        app.add_exception_handler(kind, refused)
