"""The credentials of one agent: the stored ones, rotated when they are due.

This runs before `build/`, because minting is not pure. A pair of agents has a token only if the callee allows the
caller. The callee determines its lifetime.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleetwright_operator.api import names
from fleetwright_operator.api.call_authorization import Agent, Identity, allowed_peers
from fleetwright_operator.build.callers import Tokens, client_names
from fleetwright_operator.build.config.auth_settings import token_rotation
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.credentials.push_keys import renewed
from fleetwright_operator.credentials.rotating_token import RotatingToken, next_turn, turned
from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.credentials.stored_credentials import StoredToken
from fleetwright_operator.encoding.timestamps import moment, written
from fleetwright_operator.observe.observation import ObservedAgent
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCredentials:
    tokens: Tokens
    pending: Mapping[str, str]
    """By digest of each token that is not in use yet: the time since which the agent accepts it."""
    next_turn: int | None
    """The time at which the next credential is due; None without credentials."""
    expires: int | None
    """The earliest expiry of a credential in use, if it were not rotated before."""


def credentials_for(seen: ObservedAgent, *, settings: Settings, now: str, mint: Callable[[], str]) -> AgentCredentials:
    own = token_rotation(seen.agent, settings)
    clients = {name: (seen.client_tokens.get(name, StoredToken()), own) for name in client_names(seen.agent)}
    peers = {names.qualified(*identity): token_rotation(peer, settings) for identity, peer in _allowing(seen).items()}
    edges = {peer: (seen.own_tokens.get(peer, StoredToken()), rotation) for peer, rotation in peers.items()}
    lead = settings.token_lead_seconds
    tokens = Tokens(
        clients=_turned(clients, moment(now), mint, lead),
        callers=seen.caller_tokens,
        peers=_turned(edges, moment(now), mint, lead),
        push=renewed(seen.push_keys, asked=seen.push_wish, mint=mint) if offers_push(seen.agent) else None,
    )
    held = [(tokens.clients[name], *found) for name, found in clients.items()]
    held += [(tokens.peers[name], *found) for name, found in edges.items()]
    turns = [next_turn(bearer, rotation=rotation, listed=found.listed, lead=lead) for bearer, found, rotation in held]
    ends = [bearer.current.expires for bearer, _, _ in held if bearer.current.expires is not None]
    return AgentCredentials(
        tokens=tokens,
        pending=_pending(seen, tokens, moment(now)),
        next_turn=min(turns, default=None),
        expires=min(ends, default=None),
    )


def _pending(seen: ObservedAgent, tokens: Tokens, now: int) -> dict[str, str]:
    bearers = [*tokens.clients.values(), *tokens.callers.values()]
    waiting = [bearer.next.sha256 for bearer in bearers if bearer.next]
    since = {sha256: seen.own_list.since(sha256) for sha256 in waiting}
    return {sha256: written(now if known is None else min(known, now)) for sha256, known in since.items()}


def _allowing(seen: ObservedAgent) -> dict[Identity, Agent]:
    existing = {peer: agent for peer, agent in seen.peers.items() if agent is not None}
    return {peer: existing[peer] for peer in allowed_peers(seen.agent, existing, seen.namespace_labels)}


def _turned(
    held: Mapping[str, tuple[StoredToken, Rotation]], now: int, mint: Callable[[], str], lead: int
) -> dict[str, RotatingToken]:
    return {
        name: turned(
            found.bearer, now=now, rotation=rotation, mint=mint, listed=found.listed, asked=found.asked, lead=lead
        )
        for name, (found, rotation) in held.items()
    }
