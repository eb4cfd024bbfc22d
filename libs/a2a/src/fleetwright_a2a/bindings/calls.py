"""Executes a call for every binding: passes it to the request handler, and converts the result to the dialect's format.

This module does not know the bindings. It hides internal errors from callers.
"""

import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Final

from a2a.auth.user import User
from a2a.extensions.common import HTTP_EXTENSION_HEADER, get_requested_extensions
from a2a.server.context import ServerCallContext
from a2a.utils.errors import A2AError, ExtensionSupportRequiredError, UnsupportedOperationError
from starlette.authentication import BaseUser
from starlette.requests import Request

from fleetwright_a2a.authentication import CallerUser, Delegation
from fleetwright_a2a.bindings.operation_handler import OperationHandler
from fleetwright_a2a.card import Card
from fleetwright_a2a.dialects.dialect import STREAMS, Dialect, Operation, Params
from fleetwright_a2a.errors import NoStreams, NotAccepting, internal
from fleetwright_a2a.extensions import LEGACY_HTTP_EXTENSION_HEADER
from fleetwright_a2a.http.envelope import RequestId
from fleetwright_a2a.message_replies import is_held

_logger = logging.getLogger(__name__)
Admission = Callable[[Operation], str | None]
"""Returns why an operation is not available right now, as text for the caller; None if the operation is available."""
DIALECT: Final = "dialect"
"""The key in the state of a call context that holds the protocol version of the request."""
CALLED: Final = "called"
"""The key in the state of a call context that holds the request id, for callers that send no message ids (A2A 0.1)."""
TASKS_ONLY: Final = "tasks_only"
"""The key in the state of a call context that is set if every answer must be a task, because of the version."""
_CHAIN: Final = "chain"
TRACEPARENT: Final = "traceparent"
"""The key in the state of a call context that holds the W3C `traceparent` header, if there was one."""
_DELEGATION: Final = "delegation"
_EXTENSION_HEADERS: Final = (HTTP_EXTENSION_HEADER, LEGACY_HTTP_EXTENSION_HEADER)


@dataclass(frozen=True, slots=True)
class RpcCall:
    dialect: Dialect
    operation: Operation
    request: Any
    context: ServerCallContext


class _RequestUser(User):
    """The authenticated user of a request, as the SDK's type."""

    def __init__(self, user: BaseUser) -> None:
        self._user = user

    @property
    def is_authenticated(self) -> bool:
        return self._user.is_authenticated

    @property
    def user_name(self) -> str:
        return self._user.display_name


class RpcDispatcher:
    def __init__(
        self,
        handler: OperationHandler,
        *,
        admission: Admission,
        spoken: frozenset[str],
        card: Callable[[], Card | None],
        keepalive: float,
    ) -> None:
        """
        Args:
            handler: The handler of the operations.
            admission: Decides whether an operation is available.
            spoken: The extensions that the runtime supports.
            card: Returns the current card, which declares further extensions, and which of them every caller must
                request.
            keepalive: The longest silence of a stream, in seconds.
        """
        self._handler = handler
        self._admission = admission
        self._always = spoken
        self._card = card
        self.keepalive = keepalive

    def admit(self, call: RpcCall) -> None:
        """Check whether the call may be executed.

        Raises:
            NotAccepting: The operation is not available right now.
            ExtensionSupportRequiredError: The call does not request a required extension.
            UnsupportedOperationError: The card does not declare streaming.
        """
        if busy := self._admission(call.operation):
            raise NotAccepting(busy)
        card = self._card()
        # A caller may need the extended card to learn which extensions are required.
        if card is None or call.operation is Operation.EXTENDED_CARD:
            return
        if call.operation in STREAMS and not card.streaming:
            # In 0.1, the code of UnsupportedOperationError means a wrong state of the task, so NoStreams has a
            # separate code.
            kind = NoStreams if NoStreams in call.dialect.codes else UnsupportedOperationError
            raise kind("The card of this agent has capabilities.streaming: false. Send the message without a stream.")
        if missing := sorted(card.required - call.context.requested_extensions):
            raise ExtensionSupportRequiredError(
                f"This agent requires {', '.join(missing)}: name it in the header {HTTP_EXTENSION_HEADER}"
            )

    def _spoken(self) -> frozenset[str]:
        card = self._card()
        return self._always | (card.extensions if card else frozenset())

    def extension_headers(self, request: Request) -> dict[str, str]:
        """Return the headers with the activated extensions, under the same header names as in the request."""
        asked = {name: uris for name in _EXTENSION_HEADERS if (uris := _requested(request, name))}
        if not asked:
            return {}
        spoken = self._spoken()
        told = {name: ", ".join(sorted(spoken.intersection(uris))) for name, uris in asked.items()}
        return {name: uris for name, uris in told.items() if uris}

    async def answer(self, call: RpcCall) -> Any:
        """Execute the call and return its result. Raises: A2AError."""
        try:
            answer = await getattr(self._handler, call.operation.value)(call.request, call.context)
            return call.dialect.writes[call.operation](answer, call.request)
        except Exception as error:
            raise public_error(error) from None

    async def stream(self, call: RpcCall) -> AsyncGenerator[Params, None]:
        """Start a stream and return it after its first event.

        Raises:
            A2AError: The stream cannot begin. Reading the stream may raise it too.
        """
        events = getattr(self._handler, call.operation.value)(call.request, call.context)
        try:
            first = await anext(events)
        except Exception as error:
            raise public_error(error) from None
        return _told(call, first, events)


async def _told(call: RpcCall, first: Any, events: AsyncGenerator[Any, None]) -> AsyncGenerator[Params, None]:
    tell, ends_with_final = call.dialect.teller(), call.dialect.ends_with_final
    async with aclosing(events):
        try:
            for params in () if is_held(first) else tell(first):
                yield params
                if ends_with_final and params.get("final"):
                    return
                del params
            # A silent stream keeps no reference to past events, because tasks may be large and there may be many
            # streams.
            del first
            async for event in events:
                for params in tell(event):
                    yield params
                    if ends_with_final and params.get("final"):
                        return
                    del params
                del event
        except Exception as error:
            raise public_error(error) from None


def public_error(error: Exception) -> A2AError:
    """Return the error that may be sent to a caller."""
    if isinstance(error, A2AError):
        return error
    _logger.error("a call failed unexpectedly", exc_info=error)
    return internal()


def context_of(request: Request, dialect: Dialect, *, called: RequestId = None) -> ServerCallContext:
    """Return the SDK's context of a call. Args: `called` is the id of the request."""
    name = "" if called is None else json.dumps(called)
    state = {DIALECT: dialect.version, TRACEPARENT: request.headers.get(TRACEPARENT, "")}
    user = request.user
    delegated: dict[str, Any] = {}
    if isinstance(user, CallerUser):
        delegated = {_CHAIN: user.chain, **({_DELEGATION: user.delegation} if user.delegation else {})}
    return ServerCallContext(
        user=_RequestUser(user),
        state={
            **state,
            **delegated,
            **({CALLED: name} if dialect.chooses_ids else {}),
            **({TASKS_ONLY: True} if dialect.tasks_only else {}),
        },
        requested_extensions=_requested(request, *_EXTENSION_HEADERS),
    )


def chain_in(context: ServerCallContext) -> tuple[str, ...]:
    """Return the agents that the call came through, the first caller first, as its credential names them."""
    found = context.state.get(_CHAIN)
    return found if isinstance(found, tuple) else ()


def delegation_in(context: ServerCallContext) -> Delegation | None:
    """Return the delegation of a call, or None if the agent can act for itself only."""
    found = context.state.get(_DELEGATION)
    return found if isinstance(found, Delegation) else None


def _requested(request: Request, *names: str) -> set[str]:
    return get_requested_extensions([value for name in names for value in request.headers.getlist(name)])
