"""The connection to one agent that supports only A2A 1.0: calls and streams over JSON-RPC."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import aiohttp
from a2a.extensions.common import HTTP_EXTENSION_HEADER
from a2a.types.a2a_pb2 import SendMessageRequest, Task
from a2a.utils.constants import VERSION_HEADER
from a2a.utils.errors import InternalError, InvalidAgentResponseError
from google.protobuf.message import Message as Proto

from fleetwright_a2a.dialects.dialect import STREAMS, Operation
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.dialects.v10_client import decode_event, decode_response, encode_request
from fleetwright_a2a.errors import internal
from fleetwright_a2a.extensions import LEGACY_HTTP_EXTENSION_HEADER
from fleetwright_a2a.http.event_decoder import EventDecoder, EventTooLarge
from fleetwright_a2a.task_events import Event
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.proxy.forwarder import SIZE, Forwarder, OutboundRequest, ProxyError, is_event_stream

MAX_EVENT: Final = 4 * 1024 * 1024
_LARGE: Final = 64 * 1024
_REPLACED: Final = frozenset({"accept", "content-type", VERSION_HEADER.lower()})
_RENAMED: Final = {LEGACY_HTTP_EXTENSION_HEADER.lower(): HTTP_EXTENSION_HEADER}
_CUT: Final = (
    "The connection to the agent was lost during the stream. The task may continue; read it or subscribe again."
)


class AgentConnection:
    def __init__(self, forwarder: Forwarder, request: OutboundRequest, *, on_cut: Callable[[], None]) -> None:
        """
        Args:
            forwarder: Sends requests.
            request: The address and the credentials; the body and the version are replaced.
            on_cut: Called when a stream of the agent ends early.
        """
        self._forwarder = forwarder
        self._request = request
        self._on_cut = on_cut
        self.failure: ProxyError | Refused | None = None
        """Why the agent could not be called, or why the gateway has sent no request. The proxy answers with this error
        instead of the translated one."""
        self.extensions = b""
        """The extensions that the agent's last response names as activated."""

    async def call(self, operation: Operation, request: Proto) -> Any:
        """Return the result of an operation, in the form of A2A 1.0. Raises: A2AError."""
        try:
            async with self._forwarder.opened(self._outbound(operation, request)) as answer:
                self.extensions = _extensions(answer)
                body = await self._forwarder.read(answer)
                return await _in_thread_if_large(body, partial(_decoded, operation, answer))
        except (ProxyError, Refused) as error:
            if isinstance(error, ProxyError) and error.reason == SIZE and operation is Operation.LIST:
                raise InternalError(error.sentence) from None  # The caller has not asked for the list.
            self.failure = error
            raise internal() from None

    async def stream(self, operation: Operation, request: Proto) -> AsyncGenerator[Task | Event, None]:
        """Yield the events of a stream as they arrive. Raises: A2AError, also in the middle of the stream."""
        try:
            async with self._forwarder.opened(self._outbound(operation, request)) as answer:
                self.extensions = _extensions(answer)
                if not is_event_stream(answer):
                    _decoded(operation, answer, await self._forwarder.read(answer))
                    raise InvalidAgentResponseError("The agent did not answer with a stream")
                is_empty = True
                async for event in self._events(answer):
                    yield event
                    del event
                    is_empty = False
                if is_empty:
                    raise InvalidAgentResponseError("The agent ended its stream before the first event")
        except (ProxyError, Refused) as error:
            self.failure = error
            raise internal() from None

    async def _events(self, answer: aiohttp.ClientResponse) -> AsyncGenerator[Task | Event, None]:
        decoder = EventDecoder(limit=MAX_EVENT)
        try:
            async for piece in answer.content.iter_any():
                for data in decoder.feed(piece):
                    yield await _in_thread_if_large(data, decode_event)
        except (aiohttp.ClientError, TimeoutError, OSError):
            self._on_cut()
            raise InternalError(_CUT) from None
        except EventTooLarge:
            self._on_cut()
            raise InvalidAgentResponseError(f"An event of the agent is larger than {MAX_EVENT} bytes") from None

    def _outbound(self, operation: Operation, request: Proto) -> OutboundRequest:
        headers = [
            (_RENAMED.get(name.lower(), name), value)
            for name, value in self._request.headers
            if name.lower() not in _REPLACED
        ]
        accepted = "text/event-stream" if operation in STREAMS else "application/json"
        own = [("Accept", accepted), ("Content-Type", "application/json"), (VERSION_HEADER, V10.version)]
        body = encode_request(operation, request, request_id=str(uuid.uuid4()))
        outbound = replace(self._request, headers=[*headers, *own], body=body)
        return outbound.for_message(request.message.task_id) if isinstance(request, SendMessageRequest) else outbound


def _extensions(answer: aiohttp.ClientResponse) -> bytes:
    name = HTTP_EXTENSION_HEADER.lower().encode()
    return b", ".join(value for found, value in answer.raw_headers if found.lower() == name)


async def _in_thread_if_large(body: bytes, decode: Callable[[bytes], Any]) -> Any:
    """Decode a body. Other requests continue while a large one is decoded."""
    return await asyncio.to_thread(decode, body) if len(body) > _LARGE else decode(body)


def _decoded(operation: Operation, answer: aiohttp.ClientResponse, body: bytes) -> Any:
    return decode_response(
        operation, body, status=answer.status, retry_after=answer.headers.get("Retry-After", "").strip()
    )
