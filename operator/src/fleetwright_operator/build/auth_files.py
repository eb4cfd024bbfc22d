"""Builds `callers.json`, with the digests of accepted tokens, and the files with the tokens for calling peers.

The caller of this module mints the credentials, because minting is not pure. A called agent stores only a digest, so no
pod has a token that grants access to itself.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.build.config.gateway import GatewayTrust
from fleetwright_operator.credentials.push_keys import PushKeys
from fleetwright_operator.credentials.rotating_token import RotatingToken

DEFAULT_CLIENTS = ("default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The credentials of one agent. Their texts are never logged, because the representation hides them."""

    clients: Mapping[str, RotatingToken] = field(default_factory=dict)
    """By client name: the token with which users and gateways call this agent."""
    callers: Mapping[str, RotatingToken] = field(default_factory=dict)
    """By `<namespace>/<name>` of an allowed caller: the token with which that agent calls this one."""
    peers: Mapping[str, RotatingToken] = field(default_factory=dict)
    """By `<namespace>/<name>` of a peer: the token with which this agent calls it."""
    operators: tuple[str, ...] = ()
    """The digests of the tokens with which the operator reads and answers approvals; empty if the agent never asks."""
    workspace: tuple[str, ...] = field(default=(), repr=False)
    """The tokens that the agent's workspace accepts, the one in use first; empty without a workspace."""
    gateway: GatewayTrust | None = None
    """Set if the installation has a gateway with keys."""
    push: PushKeys | None = None
    """Set if the agent offers push notifications."""


def client_names(spec: AgentSpec) -> tuple[str, ...]:
    clients = spec.auth.clients
    return DEFAULT_CLIENTS if clients is None else tuple(client.name for client in clients)


def callers_document(tokens: Tokens) -> dict[str, Any]:
    kinds = {"client": tokens.clients, "agent": tokens.callers}
    held = [
        (kind, name, credential)
        for kind, credentials in kinds.items()
        for name, credential in sorted(credentials.items())
    ]
    return {"version": 1, "callers": [entry for each in held for entry in _entries(*each)]}


def operators_document(tokens: Tokens) -> dict[str, Any]:
    """Return `operator.json`. It is a separate file, because earlier runtimes refuse unknown kinds of callers."""
    return {"version": 1, "operators": [{"sha256": digest} for digest in tokens.operators]}


def administrators_document(clients: Sequence[str]) -> dict[str, Any]:
    """Return `administrators.json`. The file can change without a new revision, unlike the configuration."""
    return {"version": 1, "administrators": list(clients)}


def client_entries(tokens: Tokens) -> list[dict[str, str]]:
    """Return the digests of the accepted tokens of clients, without those of agents."""
    return [
        {name: entry[name] for name in ("name", "sha256", "expires") if name in entry}
        for client, credential in sorted(tokens.clients.items())
        for entry in _entries("client", client, credential)
    ]


def peer_token_files(tokens: Tokens) -> dict[str, str]:
    """Return the tokens by file name below the auth folder.

    Next tokens have files as well, which the runtime does not read.
    """
    files = {}
    for peer, credential in sorted(tokens.peers.items()):
        place = peer.split("/", 1)
        files[names.peer_token_key(*place)] = credential.current.text
        if credential.next:
            files[names.next_token_key(*place)] = credential.next.text
    return files


def _entries(kind: str, name: str, credential: RotatingToken) -> Iterator[dict[str, str]]:
    for sha256, expires in credential.accepted:
        end = {"expires": format_timestamp(expires)} if expires is not None else {}
        yield {"name": name, "kind": kind, "sha256": sha256, **end}
