"""Agent cards as callers of the gateway see them.

The operator writes and signs one card for each address of the gateway. The gateway serves these cards byte for byte.
"""

from email.utils import formatdate

from starlette.datastructures import Headers
from starlette.responses import Response

from fleetwright_api.encoding.canonical_json import sha256_hex
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses


class CardResponses:
    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet = fleet
        self._addresses = addresses

    def response(self, agent: AgentView, headers: Headers) -> Response | None:
        """Return the gateway's card of an agent. Return None if the operator has not written a card yet.

        `headers` are those of the request.
        """
        text = self._fleet.gateway_card_of(agent, inside=self._addresses.is_inside(headers.get("host", "")))
        if text is None:
            return None
        tag = f'"sha256:{sha256_hex(text)}"'
        sent = {"ETag": tag, "Cache-Control": "private, max-age=60"}
        if (modified := self._fleet.card_modified(agent)) is not None:
            sent["Last-Modified"] = formatdate(modified, usegmt=True)
        known = headers.get("if-none-match", "").split(",")
        if tag in {each.strip().removeprefix("W/") for each in known}:
            return Response(status_code=304, headers=sent)
        return Response(text, media_type="application/json", headers=sent)

    def extended_text(self, agent: AgentView, headers: Headers) -> str | None:
        """Return the gateway's extended card of an agent, or None if the operator has written none.

        `headers` are those of the request.
        """
        return self._fleet.extended_card_of(agent, inside=self._addresses.is_inside(headers.get("host", "")))
