"""Agent cards as callers of the gateway see them.

The operator writes and signs the card of an agent, which names the agent's own address. The gateway serves a changed
card, which names the gateway's address and credential. The changed card has no signature, because the signatures of
the agent's card do not match the new content.
"""

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import Headers
from starlette.responses import Response

from fleetwright_a2a.errors import RPC_PATH
from fleetwright_api.encoding.canonical_json import canonical_json, sha256_hex
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses, agent_url

_DESCRIPTION: Final = "A Kubernetes token with the audience of the gateway, or a client token of the agent."
_SCHEME: Final = {
    "bearer": {
        "type": "http",
        "scheme": "Bearer",
        "description": _DESCRIPTION,
        "httpAuthSecurityScheme": {"scheme": "Bearer", "description": _DESCRIPTION},
    }
}


class CardResponses:
    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet = fleet
        self._addresses = addresses

    def response(self, agent: AgentView, headers: Headers) -> Response | None:
        """Return the gateway's card of an agent. Return None if the operator has not written a card yet.

        `headers` are those of the request.
        """
        card = self._fleet.card_of(agent)
        if card is None:
            return None
        url = agent_url(self._addresses.for_host(headers.get("host", "")), agent)
        text = canonical_json(gateway_card(card, url))
        tag = f'"sha256:{sha256_hex(text)}"'
        sent = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        known = headers.get("if-none-match", "").split(",")
        if tag in {each.strip().removeprefix("W/") for each in known}:
            return Response(status_code=304, headers=sent)
        return Response(text, media_type="application/json", headers=sent)


def gateway_card(card: Mapping[str, Any], url: str) -> dict[str, Any]:
    """Return the card with the gateway's address in place of the agent's. Pure."""
    found = {key: value for key, value in card.items() if key != "signatures"}
    address = f"{url}{RPC_PATH}"
    for key in ("supportedInterfaces", "additionalInterfaces"):
        if isinstance(interfaces := found.get(key), list):
            found[key] = [{**each, "url": address} for each in interfaces if isinstance(each, dict)]
    if "url" in found:
        found["url"] = address
    found["securitySchemes"] = _SCHEME
    found["securityRequirements"] = [{"schemes": {"bearer": {}}}]
    if "security" in found:
        found["security"] = [{"bearer": []}]
    if "authentication" in found:
        found["authentication"] = {"schemes": ["bearer"]}
    return found
