"""The cards of an agent at the gateway: for each address of the gateway one, signed like the agent's own card. Pure.

A signature covers the addresses in a card, so the gateway cannot make such a card from the agent's own. It serves these
cards byte for byte. An agent with an extended card also gets an extended card for each address. All cards also list the
versions of A2A that the gateway translates for the agent.
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
_INSIDE: Final = frozenset({names.GATEWAY_INSIDE_CARD_KEY, names.GATEWAY_INSIDE_EXTENDED_CARD_KEY})
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
    outside = _card_at(card, _address(gateway.public_url or gateway.url, agent))
    inside = _card_at(card, _address(gateway.url, agent))
    shown = {names.GATEWAY_CARD_KEY: public_card(outside), names.GATEWAY_INSIDE_CARD_KEY: public_card(inside)}
    if card["capabilities"].get("extendedAgentCard"):
        shown |= {names.GATEWAY_EXTENDED_CARD_KEY: outside, names.GATEWAY_INSIDE_EXTENDED_CARD_KEY: inside}
    only = _INSIDE if inside == outside else frozenset()
    return {key: signed_card(each, sign) for key, each in shown.items() if key not in only}


def _card_at(card: Mapping[str, Any], address: str) -> Mapping[str, Any]:
    own = [*card["supportedInterfaces"], *_translated(card)]
    interfaces = [{**each, "url": f"{address}{RPC_PATH}"} for each in sorted(own, key=_version, reverse=True)]
    security = {"securitySchemes": _BEARER, "securityRequirements": [{"schemes": {"bearer": {}}}]}
    return {**card, "supportedInterfaces": interfaces, **security}


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
