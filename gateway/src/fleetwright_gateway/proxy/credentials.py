"""The credentials of a request to an agent: the token that names the caller, and the delegation for a message."""

from collections.abc import Sequence

from fleetwright_a2a.authentication import DELEGATION
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.http.admission import Admitted, Refused
from fleetwright_gateway.identity.principals import ClientPrincipal
from fleetwright_gateway.tokens.call_chain import CallChain
from fleetwright_gateway.tokens.pair_tokens import NoSigningKey, PairTokenIssuer

Header = tuple[str, str]


class RequestCredentials:
    """The credentials of one caller for one agent."""

    __slots__ = ("_admitted", "_agent", "_chain", "_tokens")

    def __init__(self, tokens: PairTokenIssuer, admitted: Admitted, chain: CallChain, agent: AgentView) -> None:
        self._tokens = tokens
        self._admitted = admitted
        self._chain = chain
        self._agent = agent

    def authorization(self) -> Header:
        """Return the header by which the agent identifies the caller. Raises: Refused."""
        if isinstance(self._admitted.principal, ClientPrincipal):
            return _bearer(self._admitted.token)
        try:
            return _bearer(self._tokens.pair_token_for(self._chain, self._agent))
        except NoSigningKey as error:
            raise _cannot_sign(error) from None

    def delegation(self, task_id: str) -> Sequence[Header]:
        """Return the header with the delegation for a message. A client of one agent has none. Raises: Refused.

        Args: `task_id` is the task that the message names; empty if the message begins a task.
        """
        if isinstance(self._admitted.principal, ClientPrincipal):
            return ()
        try:
            return [(DELEGATION, self._tokens.delegation_for(self._chain, self._agent, task_id))]
        except NoSigningKey as error:
            raise _cannot_sign(error) from None


def _bearer(token: str) -> Header:
    return ("Authorization", f"Bearer {token}")


def _cannot_sign(error: NoSigningKey) -> Refused:
    return Refused(503, f"The gateway cannot sign tokens: {error}.", {"Retry-After": "5"})
