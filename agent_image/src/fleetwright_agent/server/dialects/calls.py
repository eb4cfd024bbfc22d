"""One call, whatever it came in as: to the request handler and back, in the words of its dialect.

Refuses: knowing a binding. What a caller must not be told stays here.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from a2a.compat.v0_3.extension_headers import LEGACY_HTTP_EXTENSION_HEADER
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.server.request_handlers.request_handler import RequestHandler
from a2a.server.routes.common import StarletteUser
from a2a.utils.errors import A2AError, ExtensionSupportRequiredError, UnsupportedOperationError
from starlette.requests import Request

from fleetwright_agent.config.file_watcher import Watched
from fleetwright_agent.server.card import Card
from fleetwright_agent.server.dialects.dialect import STREAMS, Dialect, Operation, Params
from fleetwright_agent.server.errors import NoStreams, Unavailable, internal
from fleetwright_agent.server.extensions import activated
from fleetwright_agent.server.http.envelope import RequestId
from fleetwright_agent.server.push.payload import DIALECT
from fleetwright_agent.server.tasks.message_replies import is_held
from fleetwright_agent.server.tasks.messages import CALLED, TRACEPARENT

_logger = logging.getLogger(__name__)
Admission = Callable[[Operation], str | None]
"""Why an operation cannot be had right now, for the caller; nothing when it can."""
_EXTENSION_HEADERS: Final = (HTTP_EXTENSION_HEADER, LEGACY_HTTP_EXTENSION_HEADER)


@dataclass(frozen=True, slots=True)
class Call:
    dialect: Dialect
    operation: Operation
    request: Any
    context: ServerCallContext


class Calls:
    def __init__(
        self,
        handler: RequestHandler,
        *,
        admission: Admission,
        spoken: frozenset[str],
        card: Watched[Card],
        keepalive: float,
    ) -> None:
        """The `card` says which extensions are spoken besides, and which of them every caller must name.

        `keepalive` is the longest silence of a stream, in seconds.
        """
        self._handler = handler
        self._admission = admission
        self._always = spoken
        self._card = card
        self.keepalive = keepalive

    def admit(self, call: Call) -> None:
        """Raises: Unavailable, ExtensionSupportRequiredError, UnsupportedOperationError."""
        if busy := self._admission(call.operation):
            raise Unavailable(busy)
        card, _ = self._card.recent()
        # The extended card may be what a caller learns of them from.
        if card is None or call.operation is Operation.EXTENDED_CARD:
            return
        if call.operation in STREAMS and not card.streaming:
            # 0.1 has a code of its own for what the state of a task does not allow, which this is not.
            kind = NoStreams if NoStreams in call.dialect.codes else UnsupportedOperationError
            raise kind("The card of this agent says capabilities.streaming: false. Send the message without a stream.")
        if missing := sorted(card.required - call.context.requested_extensions):
            raise ExtensionSupportRequiredError(
                f"This agent requires {', '.join(missing)}: name it in the header {HTTP_EXTENSION_HEADER}"
            )

    def _spoken(self) -> frozenset[str]:
        card, _ = self._card.recent()
        return self._always | (card.extensions if card else frozenset())

    def extension_headers(self, request: Request) -> dict[str, str]:
        """What of the requested is spoken here, told under the name it was asked under."""
        asked = {name: uris for name in _EXTENSION_HEADERS if (uris := _requested(request, name))}
        if not asked:
            return {}
        spoken = self._spoken()
        told = {name: ", ".join(activated(uris, spoken)) for name, uris in asked.items()}
        return {name: uris for name, uris in told.items() if uris}

    async def answer(self, call: Call) -> Any:
        """Raises: A2AError."""
        try:
            answer = await getattr(self._handler, call.operation.value)(call.request, call.context)
            return call.dialect.writes[call.operation](answer, call.request)
        except Exception as error:
            raise safe(error) from None

    async def stream(self, call: Call) -> AsyncGenerator[Params, None]:
        """The stream, once it has begun: what keeps it from beginning is raised here.

        Raises:
            A2AError: Also while it is read.
        """
        events = getattr(self._handler, call.operation.value)(call.request, call.context)
        try:
            first = await anext(events)
        except Exception as error:
            raise safe(error) from None
        return _told(call, first, events)


async def _told(call: Call, first: Any, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Params, None]:
    tell = call.dialect.teller()
    async with aclosing(events):
        try:
            for params in () if is_held(first) else tell(first):
                yield params
                del params
            # While a stream is silent it holds nothing of what it told: a task may be large, and streams many.
            del first
            async for event in events:
                for params in tell(event):
                    yield params
                    del params
                del event
        except Exception as error:
            raise safe(error) from None


def safe(error: Exception) -> A2AError:
    """The error as a caller may know it."""
    if isinstance(error, A2AError):
        return error
    _logger.error("a call could not be answered", exc_info=error)
    return internal()


def context_of(request: Request, dialect: Dialect, *, called: RequestId = None) -> ServerCallContext:
    """Args: `called` is what the caller calls this request."""
    name = "" if called is None else json.dumps(called)
    state = {DIALECT: dialect.version, TRACEPARENT: request.headers.get(TRACEPARENT, "")}
    return ServerCallContext(
        user=StarletteUser(request.user),
        state={**state, **({CALLED: name} if dialect.chooses_ids else {})},
        requested_extensions=_requested(request, *_EXTENSION_HEADERS),
    )


def _requested(request: Request, *names: str) -> set[str]:
    return get_requested_extensions([value for name in names for value in request.headers.getlist(name)])
