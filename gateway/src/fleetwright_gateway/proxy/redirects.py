"""The response to a request for an agent that another agent has replaced."""

from starlette.datastructures import Headers

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

    def refusal(self, found: AgentView | None, rest: str, headers: Headers) -> Refused:
        """Return the response for a caller. Args: `found` is None if the caller may not call the successor.

        Unlike status 301, status 308 keeps the method and the body of a POST (RFC 9110, section 15.4.9).
        """
        if found is None:
            return Refused(410, REPLACED)
        place = f"{agent_url(self._addresses.for_host(headers.get('host', '')), found)}{rest}"
        return Refused(308, replaced_by(found), {"Location": place})
