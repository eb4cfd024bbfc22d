"""Declared peers as tools: one `ask_<name>` each, called over A2A with the credential for that peer.

A peer that may sleep is called through the gateway, which wakes it.
"""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

import httpx

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.tools import Peer
from fleetwright_agent.security.caller_roles import CallerAction
from fleetwright_agent.storage.open_questions import OpenQuestions
from fleetwright_agent.tools.peers.call_records import CallRecords
from fleetwright_agent.tools.peers.conversation import PeerConversations, name_of
from fleetwright_agent.tools.peers.direct import DirectCalls
from fleetwright_agent.tools.peers.gateway_calls import GatewayCalls
from fleetwright_agent.tools.peers.questions import IsUndelivered, nothing_is_undelivered
from fleetwright_agent.tools.peers.retries import Sleep
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError

MESSAGE: Final = {"type": "string", "description": "The whole request; the peer knows nothing of this conversation"}
TASK_ID: Final = {"type": "string", "description": "To answer what it asked: the task_id that came with the question"}


class PeerTools:
    """The peers that one agent may call, over one HTTP client. The caller of this class closes the client."""

    name = "peers"

    def __init__(
        self,
        me: str,
        peers: Sequence[Peer],
        layout: Layout,
        client: httpx.AsyncClient,
        kept: OpenQuestions,
        *,
        records: CallRecords,
        is_alone: bool = True,
        is_undelivered: IsUndelivered = nothing_is_undelivered,
        outlived: bool = True,
        direct: DirectCalls | None = None,
        through_gateway: GatewayCalls | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        """Args:
        me: This agent, as `<namespace>/<name>`.
        peers: The declared peers.
        layout: The paths of the mounted files.
        client: Connects to the peers.
        kept: The store of the peers' questions.
        records: Records the calls.
        is_alone: False if another provider uses the store too, for agents that are not declared.
        is_undelivered: Returns whether a later turn delivers a question again.
        outlived: True if the store survives a restart.
        direct: Gets tokens for direct calls from the gateway; None without a gateway.
        through_gateway: Authorizes calls of the peers behind the gateway; None if there are no such peers.
        sleep: Waits before a request is repeated.
        """
        self._peers = tuple(peers)
        self._layout = layout
        self._direct = direct
        self._through_gateway = through_gateway
        known = {name_of(peer): peer for peer in self._peers}
        self._conversations = PeerConversations(
            me,
            client,
            kept,
            records,
            find=known.get,
            authorize=self._authorize,
            keeps=lambda name: is_alone or name in known,
            is_undelivered=is_undelivered,
            outlived=outlived,
            sleep=sleep,
        )

    def over(self, owner: str, task_id: str) -> None:
        """End the open questions of a task that will not continue."""
        if self._peers:
            self._conversations.over(owner, task_id)

    async def close(self) -> None:
        await self._conversations.aclose()

    async def tools(self, context: ToolContext) -> tuple[Tool, ...]:  # noqa: ARG002 - all turns have the same peers
        return tuple(self._tool(peer) for peer in self._peers)

    def _tool(self, peer: Peer) -> Tool:
        async def ask(call: ToolCall) -> str:
            return await self._conversations.ask(peer, call)

        properties = {"message": MESSAGE, "task_id": TASK_ID}
        schema = {"type": "object", "properties": properties, "required": ["message"]}
        about = peer.description or "an agent of this fleet"
        name = f"ask_{peer.name.replace('-', '_')}"
        description = f"Ask the agent {peer.name} ({about}) and wait for its answer."
        return Tool(name, description, schema, ask, action=CallerAction.DELEGATE)

    async def _authorize(self, peer: Peer, owner: str, task_id: str, continues: str | None) -> Mapping[str, str]:
        if peer.through_gateway:
            if self._through_gateway is None:
                raise ToolError(f"this agent holds no credential for the gateway, through which it calls {peer.name}")
            return await self._through_gateway.headers(owner, task_id)
        if self._direct is not None:
            token = await self._direct.token_for(peer, owner, task_id, continues=continues)
            if token is not None:
                return token.headers
        return {"Authorization": f"Bearer {read_peer_token(self._layout, peer)}"}


def read_peer_token(layout: Layout, peer: Peer) -> str:
    """Return the token that the operator minted for calls of a peer. Raises: ToolError."""
    try:
        return layout.peer_token_file(peer.namespace, peer.name).read_text().strip()
    except OSError:
        raise ToolError(f"this agent holds no credential for {peer.name}; it is not among its callers") from None


def opaque_token(peers: Sequence[Peer], layout: Layout, url: httpx.URL) -> str | None:
    """Return the operator's token for the peer at a URL, or None if there is no such peer or no token."""
    for peer in peers:
        if peer.through_gateway:
            continue
        known = httpx.URL(peer.url)
        if (known.scheme, known.host, known.port) == (url.scheme, url.host, url.port):
            with suppress(ToolError):
                return read_peer_token(layout, peer)
    return None
