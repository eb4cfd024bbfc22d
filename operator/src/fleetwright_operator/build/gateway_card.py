"""The cards of an agent at the gateway: one for each address of the gateway, signed like the agent's own card. Pure.

A signature covers the addresses in a card, so the gateway cannot make such a card from the agent's own. It serves these
cards byte for byte. They also list the versions of A2A that the gateway translates for the agent.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.a2a import DIALECTS
from fleetwright_api.spec.agent import AgentView
from fleetwright_operator.build.card import RPC_PATH, Sign, public_card, signed_card
from fleetwright_operator.settings import GatewayReference

_TRANSLATED: Final = "JSONRPC"
"""The binding over which the gateway translates."""
_BEARER: Final = {
    "bearer": {
        "httpAuthSecurityScheme": {
            "scheme": "Bearer",
            "description": "A Kubernetes token with the audience of the gateway, or a client token of the agent.",
        }
    }
}


def gateway_cards(
    card: Mapping[str, Any], agent: AgentView, gateway: GatewayReference | None, sign: Sign
) -> dict[str, str]:
    """Return the cards by the keys of the ConfigMap; none without a gateway.

    Args: `card` is the agent's own card, with all skills and without signatures.
    """
    if gateway is None:
        return {}
    outside = _signed_card(card, _address(gateway.public_url or gateway.url, agent), sign)
    inside = _signed_card(card, _address(gateway.url, agent), sign)
    return {names.GATEWAY_CARD_KEY: outside, **({names.GATEWAY_INSIDE_CARD_KEY: inside} if inside != outside else {})}


def _signed_card(card: Mapping[str, Any], address: str, sign: Sign) -> str:
    own = [*card["supportedInterfaces"], *_translated(card)]
    interfaces = [{**each, "url": f"{address}{RPC_PATH}"} for each in sorted(own, key=_version, reverse=True)]
    security = {"securitySchemes": _BEARER, "securityRequirements": [{"schemes": {"bearer": {}}}]}
    return signed_card(public_card({**card, "supportedInterfaces": interfaces, **security}), sign)


def _translated(card: Mapping[str, Any]) -> Iterator[dict[str, str]]:
    """Yield the interfaces that the agent does not have, and that the gateway translates to A2A 1.0."""
    spoken = {_version(each) for each in card["supportedInterfaces"] if each["protocolBinding"] == _TRANSLATED}
    for version in DIALECTS:
        if version not in spoken:
            yield {"protocolBinding": _TRANSLATED, "protocolVersion": version}


def _version(interface: Mapping[str, str]) -> str:
    return interface["protocolVersion"]


def _address(base: str, agent: AgentView) -> str:
    return f"{base.rstrip('/')}/agents/{agent.namespace}/{agent.name}"
