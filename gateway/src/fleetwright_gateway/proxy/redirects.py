"""The response to a request for an agent that another agent has replaced."""

from starlette.datastructures import Headers
from starlette.types import Scope

from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.forwarding import REPLACED, replaced_by, successor
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses, agent_url
from fleetwright_gateway.http.admission import Refused


class Redirects:
    def __init__(self, fleet: Fleet, addresses: Addresses) -> None:
        self._fleet = fleet
        self._addresses = addresses

    def successor(self, agent: AgentView) -> AgentView | None:
        """Return the agent that replaced this one, or None if it cannot be found."""
        return successor(agent, self._fleet.agents)

    def refusal(self, found: AgentView | None, rest: str, scope: Scope) -> Refused:
        """Return the response for a caller. Args: `found` is None if the caller may not call the successor.

        The address has the query of the request. Unlike status 301, status 308 keeps the method and the body of a POST
        (RFC 9110, section 15.4.9).
        """
        if found is None:
            return Refused(410, REPLACED)
        base = self._addresses.for_host(Headers(scope=scope).get("host", ""))
        query = scope["query_string"].decode("latin-1")
        place = f"{agent_url(base, found)}{rest}{'?' if query else ''}{query}"
        return Refused(308, replaced_by(found), {"Location": place})
