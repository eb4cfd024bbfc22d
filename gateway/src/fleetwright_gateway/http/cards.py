"""Agent cards as callers of the gateway see them.

The operator writes and signs the card of an agent with the agent's own address. The gateway's card is another document:
it names the gateway's address and credential, and has no signature, because the agent's signatures would not verify.
"""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from fleetwright_a2a.errors import RPC_PATH
from fleetwright_api.encoding.canonical_json import canonical_json, sha256_hex
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet

_DESCRIPTION: Final = "A Kubernetes token with the audience of the gateway."
_SCHEME: Final = {
    "bearer": {
        "type": "http",
        "scheme": "Bearer",
        "description": _DESCRIPTION,
        "httpAuthSecurityScheme": {"scheme": "Bearer", "description": _DESCRIPTION},
    }
}


class CardResponses:
    def __init__(self, fleet: Fleet, *, url: str) -> None:
        """Args: `url` is the address that callers use."""
        self._fleet = fleet
        self._url = url

    def url_of(self, agent: AgentView) -> str:
        """Return the address of an agent at the gateway."""
        return f"{self._url}/agents/{agent.namespace}/{agent.name}"

    def original(self, agent: AgentView) -> Mapping[str, Any] | None:
        """Return the card that the operator wrote; None if there is none yet."""
        return self._fleet.card_of(agent)

    def card(self, agent: AgentView) -> dict[str, Any] | None:
        """Return the gateway's card of an agent; None if the operator has not written one yet."""
        card = self.original(agent)
        return None if card is None else gateway_card(card, self.url_of(agent))

    def response(self, agent: AgentView, if_none_match: str) -> Response | None:
        card = self.card(agent)
        if card is None:
            return None
        text = canonical_json(card)
        tag = f'"sha256:{sha256_hex(text)}"'
        headers = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if tag in {each.strip().removeprefix("W/") for each in if_none_match.split(",")}:
            return Response(status_code=304, headers=headers)
        return Response(text, media_type="application/json", headers=headers)


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
