"""`callers.json` and the outgoing tokens: the two halves of every authenticated edge.

Takes credentials, never makes them: minting is not pure. What a callee holds is a digest, so a pod never has
a token that opens itself.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.credentials.push_keys import PushKeys
from fleetwright_operator.credentials.rotating_token import Bearer
from fleetwright_operator.encoding.timestamps import written

DEFAULT_CLIENTS = ("default",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tokens:
    """The credentials around one agent. Their texts are never logged: the representation hides them."""

    clients: Mapping[str, Bearer] = field(default_factory=dict)
    """By client name: what people and gateways use to call this agent."""
    callers: Mapping[str, Bearer] = field(default_factory=dict)
    """By `<namespace>/<name>` of an allowed caller: what that agent uses to call this one."""
    peers: Mapping[str, Bearer] = field(default_factory=dict)
    """By `<namespace>/<name>` of a peer: what this agent uses to call it."""
    push: PushKeys | None = None
    """Where the agent offers push notifications."""


def client_names(agent: Mapping[str, Any]) -> tuple[str, ...]:
    clients = agent["spec"].get("auth", {}).get("clients")
    return DEFAULT_CLIENTS if clients is None else tuple(client["name"] for client in clients)


def callers_document(tokens: Tokens) -> dict[str, Any]:
    kinds = {"client": tokens.clients, "agent": tokens.callers}
    held = [(kind, name, bearer) for kind, bearers in kinds.items() for name, bearer in sorted(bearers.items())]
    return {"version": 1, "callers": [entry for each in held for entry in _entries(*each)]}


def peer_token_files(tokens: Tokens) -> dict[str, str]:
    """File name below the auth folder to token. The next one waits under a name that the runtime does not look at."""
    files = {}
    for peer, bearer in sorted(tokens.peers.items()):
        place = peer.split("/", 1)
        files[names.peer_token_key(*place)] = bearer.current.text
        if bearer.next:
            files[names.next_token_key(*place)] = bearer.next.text
    return files


def _entries(kind: str, name: str, bearer: Bearer) -> Iterator[dict[str, str]]:
    for sha256, expires in bearer.accepted:
        end = {"expires": written(expires)} if expires is not None else {}
        yield {"name": name, "kind": kind, "sha256": sha256, **end}
