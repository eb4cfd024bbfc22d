"""JSON-RPC for every dialect on one path. Errors are checked in this order: method, params, version."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import Any

from a2a.utils.constants import VERSION_HEADER
from a2a.utils.error_handlers import build_error_details
from a2a.utils.errors import A2AError, MethodNotFoundError
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from fleetwright_a2a.bindings.calls import RpcCall, RpcDispatcher, context_of, public_error
from fleetwright_a2a.bindings.streams import nothing, streamed
from fleetwright_a2a.dialects import versions
from fleetwright_a2a.dialects.dialect import STREAMS, Dialect, Params, load, read
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.errors import INTERNAL_ERROR, LimitReached, ServiceUnavailable
from fleetwright_a2a.http.envelope import Envelope, RequestId, id_of, opened, parse

HasChosenId = Callable[[str, str], Awaitable[bool]]
"""Takes an owner and a task id, and returns whether the caller chose the id of that task."""


def fault(dialect: Dialect, error: A2AError) -> Params:
    """Return the error object of a JSON-RPC response."""
    if isinstance(error, ServiceUnavailable):
        code = dialect.limited if isinstance(error, LimitReached) else dialect.unavailable
        return {"code": code, "message": dialect.sentence(error)}
    code = dialect.codes.get(type(error), INTERNAL_ERROR)
    if dialect.details:
        told = {"code": code, "message": error.message}
        return told if code == INTERNAL_ERROR else told | {"data": build_error_details(error)}
    return {"code": code, "message": dialect.sentence(error)}


class JsonRpc:
    """The JSON-RPC endpoint, as an ASGI application."""

    def __init__(self, calls: RpcDispatcher, dialects: Sequence[Dialect], *, has_chosen_id: HasChosenId) -> None:
        self._calls = calls
        self._dialects = dialects
        self._has_chosen_id = has_chosen_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        call: Any = None
        try:
            call = parse(await request.body())
            envelope = opened(call)
            candidates = versions.speaking(envelope.method, self._dialects)
            if not candidates:
                raise MethodNotFoundError
            dialect = await self._dialect(request, envelope, candidates)
        except ServiceUnavailable as error:
            return _refused(V10, id_of(call), error, status=error.status, headers=error.headers)
        except Exception as error:
            return _refused(V10, id_of(call), public_error(error))
        return await self._perform(request, envelope, dialect)

    async def _dialect(self, request: Request, envelope: Envelope, candidates: Sequence[Dialect]) -> Dialect:
        header = request.headers.get(VERSION_HEADER)
        task_id = envelope.params.get("id")
        chosen = False
        if len(candidates) > 1 and not header and isinstance(task_id, str):
            chosen = await self._has_chosen_id(request.user.display_name, task_id)
        return versions.choose(candidates, header, chosen_id=chosen)

    async def _perform(self, request: Request, envelope: Envelope, dialect: Dialect) -> Response:
        operation = dialect.methods[envelope.method]
        try:
            await load(dialect)
            context = context_of(request, dialect, called=envelope.id)
            call = RpcCall(dialect, operation, read(dialect, operation, envelope.params), context)
            header = request.headers.get(VERSION_HEADER)
            if not versions.accepts(dialect, header):
                return _refused(V10, envelope.id, versions.not_spoken(header))
            self._calls.admit(call)
            if operation in STREAMS:
                return self._stream(request, envelope.id, dialect, await self._calls.stream(call))
            result = {"jsonrpc": "2.0", "id": envelope.id, "result": await self._calls.answer(call)}
            return JSONResponse(result, headers=self._calls.extension_headers(request))
        except ServiceUnavailable as error:
            return _refused(dialect, envelope.id, error, status=error.status, headers=error.headers)
        except Exception as error:
            if operation in STREAMS and dialect.faults_in_streams:
                return self._stream(request, envelope.id, dialect, nothing(), broken=public_error(error))
            return _refused(dialect, envelope.id, public_error(error), headers=self._calls.extension_headers(request))

    def _stream(
        self,
        request: Request,
        request_id: RequestId,
        dialect: Dialect,
        told: AsyncGenerator[Params, None],
        *,
        broken: A2AError | None = None,
    ) -> Response:
        async def results() -> AsyncGenerator[Params, None]:
            async with aclosing(told):
                async for result in told:
                    yield {"jsonrpc": "2.0", "id": request_id, "result": result}
                    del result

        return streamed(
            results(),
            fault=lambda error: _body(dialect, request_id, error),
            marked=dialect.details,
            headers=self._calls.extension_headers(request),
            keepalive=self._calls.keepalive,
            broken=broken,
        )


def _body(dialect: Dialect, request_id: RequestId, error: A2AError) -> Params:
    return {"jsonrpc": "2.0", "id": request_id, "error": fault(dialect, error)}


def _refused(
    dialect: Dialect,
    request_id: RequestId,
    error: A2AError,
    *,
    status: int = 200,
    headers: Mapping[str, str] | None = None,
) -> Response:
    return JSONResponse(_body(dialect, request_id, error), status_code=status, headers=headers)
