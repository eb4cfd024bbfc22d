"""One call, whatever it came in as: to the request handler and back, in the words of its dialect.

Refuses: knowing a binding. What a caller must not be told stays here.
"""

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
from a2a.utils.errors import A2AError
from starlette.requests import Request

from fleetwright_agent.server.dialects.dialect import Dialect, Operation, Params
from fleetwright_agent.server.errors import Unavailable, internal
from fleetwright_agent.server.extensions import activated
from fleetwright_agent.server.messages import CHOOSES_IDS
from fleetwright_agent.server.push.payload import DIALECT
from fleetwright_agent.server.replies import is_held

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
    def __init__(self, handler: RequestHandler, *, admission: Admission, spoken: frozenset[str]) -> None:
        self._handler = handler
        self._admission = admission
        self._spoken = spoken

    def admit(self, operation: Operation) -> None:
        """Raises: Unavailable."""
        if busy := self._admission(operation):
            raise Unavailable(busy)

    def extension_headers(self, request: Request) -> dict[str, str]:
        """What of the requested is spoken here, told under the name it was asked under."""
        told = {name: ", ".join(activated(_requested(request, name), self._spoken)) for name in _EXTENSION_HEADERS}
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
            async for event in events:
                for params in tell(event):
                    yield params
        except Exception as error:
            raise safe(error) from None


def safe(error: Exception) -> A2AError:
    """The error as a caller may know it."""
    if isinstance(error, A2AError):
        return error
    _logger.error("a call could not be answered", exc_info=error)
    return internal()


def context_of(request: Request, dialect: Dialect) -> ServerCallContext:
    return ServerCallContext(
        user=StarletteUser(request.user),
        state={DIALECT: dialect.version, CHOOSES_IDS: dialect.chooses_ids},
        requested_extensions=_requested(request, *_EXTENSION_HEADERS),
    )


def _requested(request: Request, *names: str) -> set[str]:
    return get_requested_extensions([value for name in names for value in request.headers.getlist(name)])
