"""Answers a call of A2A 0.3 or 0.1 as an agent with these versions would, by calls of A2A 1.0 to the agent.

The bindings and the dialects are those of the agents themselves. Only the operations are those of a remote agent.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from a2a.extensions.common import HTTP_EXTENSION_HEADER
from starlette.authentication import SimpleUser
from starlette.types import Message, Receive, Scope, Send

from fleetwright_a2a.bindings.calls import RpcDispatcher
from fleetwright_a2a.bindings.jsonrpc import JsonRpc
from fleetwright_a2a.bindings.streams import KEEPALIVE_SECONDS
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.extensions import LEGACY_HTTP_EXTENSION_HEADER
from fleetwright_gateway.proxy.forwarder import Forwarder, OutboundRequest
from fleetwright_gateway.proxy.headers import RawHeaders
from fleetwright_gateway.proxy.translation.connection import AgentConnection
from fleetwright_gateway.proxy.translation.parsed_cards import ParsedCards
from fleetwright_gateway.proxy.translation.remote_agent import RemoteAgent

_EXTENSIONS: Final = frozenset({HTTP_EXTENSION_HEADER.lower().encode(), LEGACY_HTTP_EXTENSION_HEADER.lower().encode()})


class Translator:
    def __init__(self, forwarder: Forwarder, *, clock: Clock, on_cut: Callable[[], None]) -> None:
        self._forwarder = forwarder
        self._clock = clock
        self._on_cut = on_cut
        self._cards = ParsedCards()

    async def forward(
        self,
        request: OutboundRequest,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        caller: str,
        agent: str,
        card: Mapping[str, Any],
        extra: Sequence[tuple[bytes, bytes]],
    ) -> None:
        """Answer a request.

        Args:
            request: The request to the agent, with the body of the caller.
            scope: The scope of the caller's request.
            receive: Receives the disconnection of the caller.
            send: Sends the response.
            caller: The caller, as the agent sees it.
            agent: The uid of the agent.
            card: The agent's card.
            extra: Headers for the caller.

        Raises:
            NotAccepted: The agent did not accept the request, and the request may be repeated.
            ProxyError: Nothing was sent to the caller.
            Refused: The gateway could not create the credentials for the agent. Nothing was sent to the caller.
        """
        connection = AgentConnection(self._forwarder, request, on_cut=self._on_cut)
        remote = RemoteAgent(connection, caller=caller, agent=agent, clock=self._clock)
        known = self._cards.card(agent, card)
        calls = RpcDispatcher(
            remote,
            admission=lambda _: None,
            spoken=frozenset(),
            card=lambda: known,
            keepalive=KEEPALIVE_SECONDS,
        )
        pending: list[Message] = [{"type": "http.request", "body": request.body, "more_body": False}]

        async def replayed() -> Message:
            return pending.pop() if pending else await receive()

        async def translated(message: Message) -> None:
            if connection.failure is not None:
                return  # The proxy itself answers.
            if message["type"] == "http.response.start":
                headers = _with_extensions(message.get("headers", ()), connection.extensions, scope=scope)
                message = {**message, "headers": [*headers, *extra]}
            await send(message)

        rpc = JsonRpc(calls, (V03, V01), has_chosen_id=remote.has_chosen_id)
        await rpc({**scope, "user": SimpleUser(caller)}, replayed, translated)
        if connection.failure is not None:
            raise connection.failure


def _with_extensions(headers: RawHeaders, activated: bytes, *, scope: Scope) -> RawHeaders:
    """Return the headers, with the extensions that the agent has activated under each name that the caller has used.

    The dispatcher takes the extensions from the card, because it does not know the agent's response.
    """
    names = {name.lower() for name, _ in scope["headers"]} & _EXTENSIONS if activated else ()
    kept = [(name, value) for name, value in headers if name not in _EXTENSIONS]
    return [*kept, *((name, activated) for name in sorted(names))]
