"""`callers.json` and the outgoing tokens: the two halves of every authenticated edge.

Takes tokens, never makes them: minting is not pure. What a callee holds is a digest, so a pod never has
a token that opens itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.canonical import sha256_hex

DEFAULT_CLIENTS = ("default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The bearers around one agent. Never logged: the representation hides them."""

    clients: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By client name: what people and gateways use to call this agent."""
    callers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By `<namespace>/<name>` of an allowed caller: what that agent uses to call this one."""
    peers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By `<namespace>/<name>` of a peer: what this agent uses to call it."""


def client_names(agent: Mapping[str, Any]) -> tuple[str, ...]:
    clients = agent["spec"].get("auth", {}).get("clients")
    return DEFAULT_CLIENTS if clients is None else tuple(client["name"] for client in clients)


def callers_document(tokens: Tokens) -> dict[str, Any]:
    clients = [_caller("client", name, token) for name, token in sorted(tokens.clients.items())]
    agents = [_caller("agent", name, token) for name, token in sorted(tokens.callers.items())]
    return {"version": 1, "callers": clients + agents}


def peer_token_files(tokens: Tokens) -> dict[str, str]:
    """File name below the auth folder to token."""
    return {names.peer_token_key(*peer.split("/", 1)): token for peer, token in sorted(tokens.peers.items())}


def _caller(kind: str, name: str, token: str) -> dict[str, str]:
    return {"name": name, "kind": kind, "sha256": sha256_hex(token)}
