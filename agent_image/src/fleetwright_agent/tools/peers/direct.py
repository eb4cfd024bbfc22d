"""Decides how a declared peer is called: with a token of the gateway that is bound to a key, or with an opaque token.

A call for the principal of a task needs a token of the gateway, because an opaque token names this agent only. Without
a principal, the agent uses the opaque token if the gateway issues none, or if the peer does not know bound tokens.
"""

import logging
from collections.abc import Callable

import httpx

from fleetwright_agent.config.tools import Peer
from fleetwright_agent.storage.tasks.task_log import TaskDelegations
from fleetwright_agent.tools.peers.delegations import usable_delegation
from fleetwright_agent.tools.peers.dpop_auth import DPoPAuth
from fleetwright_agent.tools.peers.exchange import DirectToken, ExchangeUnavailable, TokenExchange
from fleetwright_agent.tools.port import ToolError

_log = logging.getLogger(__name__)


class DirectCalls:
    def __init__(
        self, exchange: TokenExchange, auth: DPoPAuth, delegations: TaskDelegations, *, now: Callable[[], float]
    ) -> None:
        """
        Args:
            exchange: Gets the tokens.
            auth: Signs the requests with these tokens.
            delegations: The delegations of the tasks of this agent.
            now: Returns seconds since the epoch.
        """
        self._exchange = exchange
        self._auth = auth
        self._delegations = delegations
        self._now = now
        auth.refused = exchange.forget

    async def token_for(
        self, peer: Peer, owner: str, task_id: str, *, continues: str | None = None
    ) -> DirectToken | None:
        """Return the token for a call in a task, or None if the opaque token is to be used.

        Args: `continues` is the task of the peer to which the call sends a message; empty if the message begins a task,
        and None if the call sends no message.

        Raises:
            ToolError: The principal of the task cannot be named to the peer.
        """
        # Check the delegation first: a call for a principal must never use the opaque token.
        delegation = await usable_delegation(self._delegations, owner, task_id, now=self._now())
        if delegation is None and self._auth.is_unable(httpx.URL(peer.url)):
            return None
        try:
            token = await self._exchange.token_for(peer, delegation, continues=continues)
        except ExchangeUnavailable as error:
            _log.warning(
                "no token for a direct call", extra={"peer": f"{peer.namespace}/{peer.name}", "why": str(error)}
            )
            if delegation is not None:
                raise ToolError(f"{peer.name} cannot be asked for the caller of this task: {error}") from None
            return None
        if delegation is None:
            self._auth.permit_opaque(token.token)
        return token
