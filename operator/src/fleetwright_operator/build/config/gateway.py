"""The configuration of an agent for its team: the gateway's address, a token for the gateway, and its public keys.

Pure.
"""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.encoding.canonical_json import canonical_json
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_api.spec.fleet import NO_REACH
from fleetwright_operator.credentials.keyring import Ring, key_set
from fleetwright_operator.credentials.revocations import Revocation
from fleetwright_operator.settings import Settings

AUDIENCE: Final = "fleetwright-gateway"
"""The audience of the tokens that agents present to the gateway."""
TOKEN_FOLDER: Final = "/var/run/fleetwright/gateway"  # noqa: S105 - a folder
_TOKEN_SECONDS: Final = 3600


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayTrust:
    """The tokens of the gateway that an agent accepts."""

    issuer: str
    audience: str
    """The uid of the Agent."""
    keys: Ring
    callers: tuple[str, ...] = ()
    """The uids of the agents that may call this agent directly, sorted. The next reconcile reads this list again."""
    revoked: tuple[Revocation, ...] = ()

    @property
    def file(self) -> str:
        """The content of `gateway.json`: public keys only, and the callers whose tokens are refused."""
        public = json.loads(key_set(self.keys))["keys"]
        trusted = {"version": 1, "issuer": self.issuer, "audience": self.audience, "keys": public}
        refused = {"revoked": [each.document for each in self.revoked]} if self.revoked else {}
        return canonical_json({**trusted, **refused})


def gateway_trust(
    uid: str, keys: Ring, settings: Settings, *, callers: Collection[str] = (), revoked: Sequence[Revocation] = ()
) -> GatewayTrust | None:
    """Return the tokens that an agent accepts, or None if the installation has no gateway, or no keys yet."""
    if settings.gateway is None or not keys:
        return None
    return GatewayTrust(
        issuer=settings.gateway.url, audience=uid, keys=keys, callers=tuple(sorted(callers)), revoked=tuple(revoked)
    )


def finds_team(spec: AgentSpec, settings: Settings) -> bool:
    """Return whether the agent finds and calls its team through the gateway."""
    return settings.gateway is not None and spec.fleet.reach != NO_REACH


def peer_url_at_gateway(peer: AgentView, settings: Settings) -> str | None:
    """Return the address of a declared peer at the gateway, or None if the agent calls the peer directly.

    The Service of a peer that sleeps has no endpoint, and only the gateway can wake the peer.
    """
    if settings.gateway is None or peer.spec.sleep is None:
        return None
    return f"{settings.gateway.url}/agents/{peer.namespace}/{peer.name}"


def peers_at_gateway(spec: AgentSpec, peers: Mapping[str, AgentView], settings: Settings) -> list[AgentView]:
    """Return the declared peers that the agent calls through the gateway.

    Args: `peers` are Agents by name. It may have other agents too, and may lack a peer.
    """
    declared = [peers[peer.name] for peer in spec.peers if peer.name in peers]
    return [peer for peer in declared if peer_url_at_gateway(peer, settings) is not None]


def calls_gateway(spec: AgentSpec, peers: Mapping[str, AgentView], settings: Settings) -> bool:
    """Return whether the agent needs a token for the gateway and a route to it."""
    return finds_team(spec, settings) or bool(peers_at_gateway(spec, peers, settings))


def gateway_config(spec: AgentSpec, settings: Settings) -> dict[str, Any]:
    """Return the fields of `agent.json`.

    If the features are not used, the fields are empty, so that revisions do not change.
    """
    gateway = settings.gateway
    reached = {"gateway": {"url": gateway.url}} if gateway is not None and finds_team(spec, settings) else {}
    # The pod of a sleeping agent starts for a message, so it loads its modules immediately.
    return {**reached, **({"preload": True} if spec.sleep is not None else {})}


def token_volume() -> dict[str, Any]:
    """Return a volume with the pod's own token for the gateway. The kubelet rotates it."""
    token = {"audience": AUDIENCE, "expirationSeconds": _TOKEN_SECONDS, "path": "token"}
    return {"name": "gateway-token", "projected": {"defaultMode": 0o440, "sources": [{"serviceAccountToken": token}]}}


def token_mount() -> dict[str, Any]:
    return {"name": "gateway-token", "mountPath": TOKEN_FOLDER, "readOnly": True}
