"""Which tokens an agent's edges have: the stored ones as long as they can be used, fresh ones otherwise.

Runs before `desired/`, because minting is not pure. A pair has a token only if the callee allows the caller.
"""

from collections.abc import Callable, Mapping

from fleetwright_operator import names
from fleetwright_operator.desired.callers import Tokens, client_names
from fleetwright_operator.edges import allowed_peers
from fleetwright_operator.observe import ObservedAgent
from fleetwright_operator.tokens import is_token


def tokens_for(seen: ObservedAgent, *, mint: Callable[[], str]) -> Tokens:
    existing = {name: peer for name, peer in seen.peers.items() if peer is not None}
    peers = [names.qualified(seen.entry.namespace, name) for name in allowed_peers(seen.agent, existing)]
    return Tokens(
        clients=_kept_or_minted(client_names(seen.agent), seen.client_tokens, mint),
        callers={caller: token for caller, token in seen.caller_tokens.items() if is_token(token)},
        peers=_kept_or_minted(tuple(peers), seen.own_tokens, mint),
    )


def _kept_or_minted(wanted: tuple[str, ...], stored: Mapping[str, str], mint: Callable[[], str]) -> dict[str, str]:
    return {name: stored[name] if is_token(stored.get(name)) else mint() for name in wanted}
