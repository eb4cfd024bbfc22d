"""Other agents of the fleet as tools: one `ask_<name>` each, spoken to over A2A.

The card is fetched from the declared address, and the peer is called there whatever address its card names: that one is
for callers outside, and a card cannot send our credential elsewhere. The credential is this edge's own file, read
before each call; nothing a caller sent is ever passed on. The call path in the message's metadata ends loops.
"""

import asyncio
import contextlib
import uuid
from collections.abc import Sequence

import httpx
from a2a.client import A2ACardResolver, Client, ClientCallContext, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    TaskState,
)
from a2a.utils.errors import A2AError

from fleetwright_agent.config import Peer
from fleetwright_agent.extensions import CALL_PATH, MAX_CALLS, TRACE, trace_of
from fleetwright_agent.layout import Layout
from fleetwright_agent.security.bounded import BoundedTransport, TooLarge
from fleetwright_agent.security.egress import EgressPolicy
from fleetwright_agent.security.pinned import DeniedAddress, PinnedTransport
from fleetwright_agent.tools.heard import Heard, TooMuchSaid
from fleetwright_agent.tools.port import Tool, ToolCall, ToolError
from fleetwright_agent.turn.frames import PeerCost

_MOST_OF_CARD = 1024 * 1024
_MOST_OF_STREAM = 32 * 1024 * 1024
_CONNECT_SECONDS = 30.0
_READ_SECONDS = 300.0

_ENDED = {TaskState.TASK_STATE_FAILED, TaskState.TASK_STATE_CANCELED, TaskState.TASK_STATE_REJECTED}
_OVER = {*_ENDED, TaskState.TASK_STATE_COMPLETED}


class PeerCalls:
    """The callable peers of one agent, over one HTTP client."""

    def __init__(self, me: str, peers: Sequence[Peer], layout: Layout, client: httpx.AsyncClient) -> None:
        self._me = me
        self._peers = tuple(peers)
        self._layout = layout
        self._client = client

    def tools(self) -> tuple[Tool, ...]:
        return tuple(self._tool(peer) for peer in self._peers)

    def _tool(self, peer: Peer) -> Tool:
        async def ask(call: ToolCall) -> str:
            return await self._ask(peer, call)

        text = {"type": "string", "description": "The whole request; the peer knows nothing of this conversation"}
        schema = {"type": "object", "properties": {"message": text}, "required": ["message"]}
        about = peer.description or "an agent of this fleet"
        name = f"ask_{peer.name.replace('-', '_')}"
        return Tool(name, f"Ask the agent {peer.name} ({about}) and wait for its answer.", schema, ask)

    async def _ask(self, peer: Peer, call: ToolCall) -> str:
        path = (*call.turn.call_path, self._me)
        if f"{peer.namespace}/{peer.name}" in path:
            raise ToolError(f"{peer.name} is already part of this request ({' > '.join(path)}); asking it would loop")
        if len(path) > MAX_CALLS:
            raise ToolError(f"this request already went through {len(path)} agents; answer without asking further")
        try:
            return await self._converse(peer, call, path)
        except TooMuchSaid:
            raise ToolError(f"{peer.name} said more than this agent listens to") from None
        except (httpx.HTTPError, A2AClientError, A2AError, OSError) as error:
            raise ToolError(f"{peer.name} could not be asked: {_meaning(error)}") from error

    async def _converse(self, peer: Peer, call: ToolCall, path: tuple[str, ...]) -> str:
        card = await A2ACardResolver(self._client, peer.url).get_agent_card()
        config = ClientConfig(httpx_client=self._client, supported_protocol_bindings=["JSONRPC"])
        client = ClientFactory(config).create(_at_its_declared_address(card, peer))
        try:
            token = self._layout.peer_token_file(peer.namespace, peer.name).read_text().strip()
        except OSError:
            raise ToolError(f"this agent holds no credential for {peer.name}; it is not among its callers") from None
        context = ClientCallContext(service_parameters={"Authorization": f"Bearer {token}"})
        heard = await self._follow(client, _request(peer, call, path), context)
        return _outcome(peer, heard, call)

    async def _follow(self, client: Client, request: SendMessageRequest, context: ClientCallContext) -> Heard:
        """Follows the stream to its end; a task that nobody will ask for again is cancelled there as well."""
        heard = Heard()
        try:
            async for event in client.send_message(request, context=context):
                heard.take(event)
        finally:
            if heard.task_id and heard.state not in _OVER:
                with contextlib.suppress(Exception):
                    async with asyncio.timeout(2):
                        await client.cancel_task(CancelTaskRequest(id=heard.task_id), context=context)
        return heard


def _request(peer: Peer, call: ToolCall, path: tuple[str, ...]) -> SendMessageRequest:
    # The peer keys our contexts by our identity, not by our caller's: derive one that no two callers share.
    seed = f"{call.turn.owner}\n{call.turn.context_id}\n{peer.namespace}/{peer.name}"
    message = Message(
        message_id=str(uuid.uuid4()),
        context_id=str(uuid.uuid5(uuid.NAMESPACE_URL, seed)),
        role=Role.ROLE_USER,
        parts=[Part(text=call.arguments["message"])],
    )
    trace = trace_of(call.turn.metadata)
    message.metadata.update({CALL_PATH: list(path), **({TRACE: trace} if trace else {})})
    return SendMessageRequest(
        message=message, configuration=SendMessageConfiguration(accepted_output_modes=["text/plain"])
    )


def _at_its_declared_address(card: AgentCard, peer: Peer) -> AgentCard:
    for interface in card.supported_interfaces:
        interface.url = f"{peer.url.rstrip('/')}/a2a"
    return card


def _outcome(peer: Peer, heard: Heard, call: ToolCall) -> str:
    for cost in heard.costs:
        call.emit(PeerCost(peer.name, cost))
    if heard.state in _ENDED:
        raise ToolError(f"{peer.name} ended without an answer: {heard.sentence or 'it gave no reason'}")
    if heard.state == TaskState.TASK_STATE_INPUT_REQUIRED:
        raise ToolError(f"{peer.name} needs to know more: {heard.sentence}. Ask it again, with that in the request")
    if heard.state != TaskState.TASK_STATE_COMPLETED:
        raise ToolError(f"{peer.name} stopped answering before it was done")
    return heard.text


def _meaning(error: BaseException) -> str:
    """The client wraps what happened; the HTTP status, where there was one, is in a cause."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, httpx.HTTPStatusError):
            status = cause.response.status_code
            refused = "it does not accept this agent as a caller (401)"
            return refused if status == 401 else f"it answered {status}"
        if isinstance(cause, httpx.TimeoutException):
            return "it did not answer in time"
        if isinstance(cause, DeniedAddress):
            return "its name leads to an address that agents may not reach"
        if isinstance(cause, TooLarge):
            return "it sent more than this agent reads"
        cause = cause.__cause__
    return "no connection"


def peer_client(peers: Sequence[Peer]) -> httpx.AsyncClient:
    """Follows no redirect and connects to no other host: the declared origins are the only ones."""
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    pinned = PinnedTransport(EgressPolicy.declared(peer.url for peer in peers))
    transport = BoundedTransport(pinned, document=_MOST_OF_CARD, stream=_MOST_OF_STREAM)
    return httpx.AsyncClient(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False)
