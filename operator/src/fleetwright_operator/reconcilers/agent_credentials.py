"""The credentials of one agent: the stored ones, rotated when they are due.

This step runs before `build/`, because minting is not pure. A pair of agents has a token only if the callee allows the
caller. The callee's spec determines the lifetime of the token.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.approval_sources import may_request_approval
from fleetwright_api.call_authorization import Identity, allowed_peers
from fleetwright_api.spec.agent import AgentView
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.build.auth_files import Tokens, client_names
from fleetwright_operator.build.config.auth_settings import token_rotation
from fleetwright_operator.build.config.gateway import gateway_trust
from fleetwright_operator.build.config.push import offers_push
from fleetwright_operator.credentials.derived_tokens import operator_tokens, token_digests, workspace_tokens
from fleetwright_operator.credentials.push_keys import renew_keys
from fleetwright_operator.credentials.revocations import renew_revocations
from fleetwright_operator.credentials.rotating_token import RotatingToken, next_rotation, rotated
from fleetwright_operator.credentials.rotation import Rotation
from fleetwright_operator.credentials.stored_credentials import StoredToken
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCredentials:
    tokens: Tokens
    pending: Mapping[str, str]
    """The times at which tokens that are not in use yet were added to `callers.json`, by the digest of the token."""
    next_rotation: int | None
    """The time at which the next credential is due, or a revocation ends; None without both."""
    expires: int | None
    """The earliest expiry of a credential in use. Rotation normally replaces the credential before then."""


def credentials_for(
    observed: ObservedAgent, *, settings: Settings, now: str, mint: Callable[[], str]
) -> AgentCredentials:
    own = token_rotation(observed.agent.spec, settings)
    clients = {
        name: (observed.client_tokens.get(name, StoredToken()), own) for name in client_names(observed.agent.spec)
    }
    peers = {
        names.qualified(*identity): token_rotation(peer.spec, settings)
        for identity, peer in _allowing(observed).items()
    }
    edges = {peer: (observed.own_tokens.get(peer, StoredToken()), rotation) for peer, rotation in peers.items()}
    lead = settings.token_lead_seconds
    revoked = renew_revocations(observed.written_callers, allowed=observed.caller_uids, now=parse_timestamp(now))
    tokens = Tokens(
        clients=_rotated(clients, parse_timestamp(now), mint, lead),
        callers=observed.caller_tokens,
        peers=_rotated(edges, parse_timestamp(now), mint, lead),
        operators=_operators(observed),
        workspace=workspace_tokens(observed.card_keys, observed.entry.uid) if observed.agent.spec.workspace else (),
        gateway=gateway_trust(
            observed.entry.uid, observed.gateway_keys, settings, callers=observed.caller_uids, revoked=revoked
        ),
        push=renew_keys(observed.push_keys, asked=observed.push_rotation_request, mint=mint)
        if offers_push(observed.agent.spec)
        else None,
    )
    held = [(tokens.clients[name], *found) for name, found in clients.items()]
    held += [(tokens.peers[name], *found) for name, found in edges.items()]
    next_rotations = [
        next_rotation(credential, rotation=rotation, listed=found.listed, lead=lead)
        for credential, found, rotation in held
    ]
    ends = [credential.current.expires for credential, _, _ in held if credential.current.expires is not None]
    return AgentCredentials(
        tokens=tokens,
        pending=_pending(observed, tokens, parse_timestamp(now)),
        next_rotation=min([*next_rotations, *(each.ends for each in revoked)], default=None),
        expires=min(ends, default=None),
    )


def _operators(observed: ObservedAgent) -> tuple[str, ...]:
    """Return the digests of the operator's tokens, if the agent may ask for approvals."""
    if not may_request_approval(observed.agent.spec):
        return ()
    return token_digests(operator_tokens(observed.card_keys, observed.entry.uid))


def _pending(observed: ObservedAgent, tokens: Tokens, now: int) -> dict[str, str]:
    credentials = [*tokens.clients.values(), *tokens.callers.values()]
    waiting = [credential.next.sha256 for credential in credentials if credential.next]
    since = {sha256: observed.own_list.since(sha256) for sha256 in waiting}
    return {sha256: format_timestamp(now if known is None else min(known, now)) for sha256, known in since.items()}


def _allowing(observed: ObservedAgent) -> dict[Identity, AgentView]:
    existing = {peer: agent for peer, agent in observed.peers.items() if agent is not None}
    return {peer: existing[peer] for peer in allowed_peers(observed.agent, existing, observed.namespace_labels)}


def _rotated(
    held: Mapping[str, tuple[StoredToken, Rotation]], now: int, mint: Callable[[], str], lead: int
) -> dict[str, RotatingToken]:
    return {
        name: rotated(
            found.credential, now=now, rotation=rotation, mint=mint, listed=found.listed, asked=found.asked, lead=lead
        )
        for name, (found, rotation) in held.items()
    }
