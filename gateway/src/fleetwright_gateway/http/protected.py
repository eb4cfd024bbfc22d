"""ASGI middleware of the registry: size of bodies, credential and rate limit, before the framework reads anything."""

from collections.abc import Collection
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetwright_gateway.http.admission import Admitted, Refused, RequestAdmission
from fleetwright_gateway.http.errors import error_response
from fleetwright_gateway.telemetry.metrics import GatewayMetrics

MAX_BODY: Final = 64 * 1024
_BODIES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_CALLER: Final = "fleetwright.caller"


class Protected:
    def __init__(
        self, app: ASGIApp, *, admission: RequestAdmission, public: Collection[str], metrics: GatewayMetrics
    ) -> None:
        """Args: `public` are the paths that need no credential."""
        self._app = app
        self._admission = admission
        self._public = frozenset(public)
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = Headers(scope=scope)
        limits: dict[str, str] = {}

        async def finish(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels("registry", str(message["status"])).inc()
                MutableHeaders(scope=message).update(limits)
            await send(message)

        try:
            if scope["path"] not in self._public:
                admitted = await self._admission.admit(headers.getlist("authorization"), scope)
                limits.update(admitted.quota.headers)
                scope = {**scope, _CALLER: admitted}
            received = await _read(receive) if scope["method"] in _BODIES else receive
        except Refused as refusal:
            answer = error_response(scope["path"], refusal.status, refusal.sentence, refusal.headers)
            await answer(scope, receive, finish)
            return
        await self._app(scope, received, finish)


def caller_of(scope: Scope) -> Admitted:
    """Return the caller of a request to a path that is not public."""
    admitted: Admitted = scope[_CALLER]
    return admitted


async def _read(receive: Receive) -> Receive:
    """Return a `receive` that repeats the body. Raises: Refused: the body is too large."""
    body, more = bytearray(), True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message["type"] == "http.request" and message.get("more_body", False)
        if len(body) > MAX_BODY:
            raise Refused(413, f"The body is larger than {MAX_BODY} bytes.", {"Connection": "close"})
    pending: list[Message] = [{"type": "http.request", "body": bytes(body), "more_body": False}]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed
