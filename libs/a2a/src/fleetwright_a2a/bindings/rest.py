"""HTTP+JSON for 1.0 and 0.3. The path and the verb determine the operation; the version header determines the dialect.

Tenants in paths, which A2A allows, are not supported.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from a2a.utils.constants import A2A_JSON_MEDIA_TYPE, VERSION_HEADER
from a2a.utils.error_handlers import build_rest_error_payload
from a2a.utils.errors import A2AError, InvalidParamsError, InvalidRequestError, JSONParseError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from fleetwright_a2a.bindings.calls import RpcCall, RpcDispatcher, context_of, public_error
from fleetwright_a2a.bindings.streams import streamed
from fleetwright_a2a.dialects import versions
from fleetwright_a2a.dialects.dialect import STREAMS, Dialect, Operation, Params, load, read
from fleetwright_a2a.errors import INTERNAL_ERROR, RPC_PATH, ServiceUnavailable, refuse
from fleetwright_a2a.http.envelope import parse

_TASK: Final = {"task": "id"}
_OF_TASK: Final = {"task": "taskId"}
_CONFIG: Final = {"task": "taskId", "config": "id"}
_Names = Mapping[str, str]
"""Maps path parameters to names of params."""
_PATHS: Final[tuple[tuple[str, str, Operation, _Names], ...]] = (
    ("POST", "/message:send", Operation.SEND, {}),
    ("POST", "/message:stream", Operation.STREAM, {}),
    ("POST", "/tasks/{task}:cancel", Operation.CANCEL, _TASK),
    ("GET", "/tasks/{task}:subscribe", Operation.SUBSCRIBE, _TASK),
    ("POST", "/tasks/{task}:subscribe", Operation.SUBSCRIBE, _TASK),
    ("GET", "/tasks/{task}/pushNotificationConfigs/{config}", Operation.GET_PUSH, _CONFIG),
    ("DELETE", "/tasks/{task}/pushNotificationConfigs/{config}", Operation.DELETE_PUSH, _CONFIG),
    ("GET", "/tasks/{task}/pushNotificationConfigs", Operation.LIST_PUSH, _OF_TASK),
    ("POST", "/tasks/{task}/pushNotificationConfigs", Operation.SET_PUSH, _OF_TASK),
    ("GET", "/tasks/{task}", Operation.GET, _TASK),
    ("GET", "/tasks", Operation.LIST, {}),
    ("GET", "/extendedAgentCard", Operation.EXTENDED_CARD, {}),
    ("GET", "/card", Operation.EXTENDED_CARD, {}),
)
_WITHOUT_PARAMS: Final = frozenset({Operation.CANCEL, Operation.SUBSCRIBE})
"""The operations of POST whose path has all that they need. Their clients may encode an absent body as `null`."""
_PREFIXES: Final = (RPC_PATH, f"{RPC_PATH}/v1", "", "/v1")
_TRUTHS: Final = {"true": True, "false": False}


class RestEndpoint:
    """The handler of one path and verb."""

    def __init__(self, calls: RpcDispatcher, dialects: Sequence[Dialect], operation: Operation, names: _Names) -> None:
        self._calls = calls
        self._dialects = [dialect for dialect in dialects if operation in dialect.reads]
        self._operation = operation
        self._names = names

    async def __call__(self, request: Request) -> Any:
        dialect: Dialect | None = None
        try:
            dialect = self._dialect(request)
            return await self._perform(request, dialect)
        except ServiceUnavailable as error:
            return refuse(error.status, error.message, headers=error.headers)
        except Exception as error:
            payload = fault(dialect, public_error(error))
            return JSONResponse(payload, payload["error"]["code"], headers=self._calls.extension_headers(request))

    async def _perform(self, request: Request, dialect: Dialect) -> Response:
        await load(dialect)
        asked = read(dialect, self._operation, await self._params(request))
        call = RpcCall(dialect, self._operation, asked, context_of(request, dialect))
        self._calls.admit(call)
        headers = self._calls.extension_headers(request)
        if self._operation in STREAMS:
            stream = await self._calls.stream(call)
            told = partial(fault, dialect)
            return streamed(stream, fault=told, marked=True, headers=headers, keepalive=self._calls.keepalive)
        media_type = A2A_JSON_MEDIA_TYPE if dialect.details else "application/json"
        return JSONResponse(await self._calls.answer(call) or {}, media_type=media_type, headers=headers)

    def _dialect(self, request: Request) -> Dialect:
        header = request.headers.get(VERSION_HEADER)
        for dialect in self._dialects:
            if versions.accepts(dialect, header):
                return dialect
        raise versions.not_spoken(header)

    async def _params(self, request: Request) -> Params:
        """Merge the params of the query, the body and the path; later ones override earlier ones."""
        # Only POST bodies have limits on size and time. Bodies of other verbs have no meaning and are not read.
        body = await request.body() if request.method == "POST" else b""
        try:
            given = parse(body) if body.strip() else {}
        except JSONParseError as error:
            raise InvalidRequestError(error.message) from None
        if given is None and self._operation in _WITHOUT_PARAMS:
            given = {}
        if not isinstance(given, dict):
            raise InvalidRequestError("The body must be a JSON object")
        named = {ours: request.path_params[place] for place, ours in self._names.items()}
        return {**{name: _typed(name, text) for name, text in request.query_params.items()}, **given, **named}


def _typed(name: str, text: str) -> Any:
    if name != "includeArtifacts":
        return text
    if text not in _TRUTHS:
        raise InvalidParamsError(f"Invalid params: check {name}")
    return _TRUTHS[text]


def fault(dialect: Dialect | None, error: A2AError) -> Params:
    """Return the body of an error response; clients of 0.3 also expect the error code of JSON-RPC."""
    payload: Params = build_rest_error_payload(error)
    if dialect is None or dialect.details:
        return payload
    code, message = dialect.codes.get(type(error), INTERNAL_ERROR), dialect.sentence(error)
    return {"code": code, "message": message, **payload}


def rest_routes(calls: RpcDispatcher, dialects: Sequence[Dialect]) -> list[Route]:
    """Return the routes for all paths; those below `/v1` exist in 0.3 only."""
    routes = []
    for prefix in _PREFIXES:
        spoken = [dialect for dialect in dialects if dialect.version == "0.3" or not prefix.endswith("/v1")]
        for path in dict.fromkeys(path for _, path, _, _ in _PATHS):
            verbs = {
                verb: RestEndpoint(calls, spoken, operation, names)
                for verb, place, operation, names in _PATHS
                if place == path
            }
            routes.append(Route(f"{prefix}{path}", _by_verb(verbs), methods=list(verbs)))
    return routes


def _by_verb(endpoints: Mapping[str, RestEndpoint]) -> Callable[[Request], Awaitable[Any]]:
    """Return one handler for all verbs of a path, so that a 405 response lists all allowed verbs."""

    async def answer(request: Request) -> Any:
        return await endpoints["GET" if request.method == "HEAD" else request.method](request)

    return answer
