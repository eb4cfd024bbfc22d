"""JSON-RPC around the SDK's dispatcher: what goes in is a well-formed call, what comes out tells nothing internal.

Refuses: JSON that is not JSON everywhere, nesting without end, envelopes the dispatcher would stumble over, and
messages while the agent cannot take them.
"""

import json
from collections.abc import Callable
from typing import Any, Final, NoReturn

from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fleetwright_agent.server.errors import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    PARSE_ERROR,
    refuse,
    sanitised,
)
from fleetwright_agent.server.extensions import activated

MAX_DEPTH: Final = 64
SENDS: Final = frozenset({"SendMessage", "SendStreamingMessage"})
_OF_MESSAGE: Final = frozenset({"contextId", "taskId", "messageId"})
Admission = Callable[[str], str | None]
"""Why a method cannot be served right now, for the caller; nothing when it can."""


class UnreadableError(ValueError):
    """The text is not JSON, or none that is accepted here."""


def parse(body: bytes) -> Any:
    """Raises: UnreadableError."""
    try:
        value = json.loads(body.decode(), parse_constant=_no_constant)
    except RecursionError:
        raise UnreadableError(f"JSON is nested deeper than {MAX_DEPTH}") from None
    except ValueError:
        raise UnreadableError("The body is not JSON") from None
    # Fewer brackets than the limit cannot nest deeper than it; most messages end here.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH and _deeper(value, MAX_DEPTH):
        raise UnreadableError(f"JSON is nested deeper than {MAX_DEPTH}")
    if b"\\ud" in body.lower():
        _refuse_half_characters(value)
    return value


def _no_constant(name: str) -> NoReturn:
    raise ValueError(name)


def _deeper(value: Any, limit: int) -> bool:
    level = [value]
    for _ in range(limit):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer if isinstance(outer, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not level:
            return False
    return True


def _refuse_half_characters(value: Any) -> None:
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise UnreadableError("A string holds half of a surrogate pair") from None


def fault(call: Any) -> tuple[int, str] | None:
    """What is wrong with a call's envelope: code and sentence."""
    if isinstance(call, list):
        return INVALID_REQUEST, "Batch requests are not supported"
    if not isinstance(call, dict):
        return INVALID_REQUEST, "The request must be a JSON object"
    if call.get("jsonrpc") != "2.0":
        return INVALID_REQUEST, "jsonrpc must be exactly '2.0'"
    if not _is_id(call.get("id")):
        return INVALID_REQUEST, "id must be a string, an integer or null"
    method = call.get("method")
    if not isinstance(method, str) or not method:
        return INVALID_REQUEST, "method must be a string"
    params = call.get("params", {})
    if not isinstance(params, dict):
        return INVALID_PARAMS, "params must be an object"
    if method in SENDS and (strayed := _OF_MESSAGE.intersection(params)):
        # The dispatcher would ignore it, and the conversation would go on somewhere else.
        return INVALID_PARAMS, f"{min(strayed)} belongs into params.message"
    return None


def _is_id(value: object) -> bool:
    return value is None or (isinstance(value, str | int) and not isinstance(value, bool))


class Envelope:
    def __init__(self, app: ASGIApp, *, admission: Admission, spoken: frozenset[str] = frozenset()) -> None:
        self._app = app
        self._spoken = spoken
        self._admission = admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        message = await receive()
        body = message.get("body", b"")
        try:
            call = parse(body)
        except UnreadableError as error:
            await refuse(200, f"{error}.", code=PARSE_ERROR)(scope, receive, send)
            return
        request_id = call.get("id") if isinstance(call, dict) and _is_id(call.get("id")) else None
        if wrong := fault(call):
            await refuse(200, wrong[1], code=wrong[0], request_id=request_id)(scope, receive, send)
            return
        if busy := self._admission(call["method"]):
            headers = {"Retry-After": "1"}
            response = refuse(503, busy, code=INTERNAL_ERROR, request_id=request_id, headers=headers)
            await response(scope, receive, send)
            return
        await self._app(scope, _once(message, receive), _Answer(scope, send, self._spoken))


def _once(message: Message, receive: Receive) -> Receive:
    pending = [message]

    async def replayed() -> Message:
        return pending.pop() if pending else await receive()

    return replayed


class _Answer:
    """Sends on what the dispatcher answers: streams as they are, single answers sanitised."""

    def __init__(self, scope: Scope, send: Send, spoken: frozenset[str]) -> None:
        self._send = send
        requested = get_requested_extensions(Headers(scope=scope).getlist(HTTP_EXTENSION_HEADER))
        self._extensions = ", ".join(activated(requested, spoken))
        self._held: Message | None = None

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            if self._extensions:
                headers[HTTP_EXTENSION_HEADER] = self._extensions
            if headers.get("content-type", "").startswith("application/json"):
                self._held = message
            else:
                await self._send(message)
        elif self._held is None:
            await self._send(message)
        else:
            start, self._held = self._held, None
            body = sanitised(message.get("body", b""))
            MutableHeaders(scope=start)["content-length"] = str(len(body))
            await self._send(start)
            await self._send({**message, "body": body})
