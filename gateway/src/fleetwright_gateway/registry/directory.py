"""The agents that a caller may see, for all APIs of the registry. A hidden agent is a 404, a replaced one redirects."""

from collections.abc import Callable, Collection, Sequence
from typing import Final

from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.forwarding import REPLACED, is_replaced, replaced_by, successor
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.admission import Refused, RequestAdmission
from fleetwright_gateway.identity.errors import IdentityError
from fleetwright_gateway.identity.principals import AgentPrincipal, Principal
from fleetwright_gateway.registry.search_index import Document, SearchIndex

_HIDDEN: Final = "There is no such agent, or this caller may not call it."


class Directory:
    def __init__(self, visibility: Visibility, admission: RequestAdmission, index: SearchIndex, fleet: Fleet) -> None:
        self._visibility = visibility
        self._admission = admission
        self._fleet = fleet
        self.index = index

    async def find(
        self, caller: Principal, namespace: str, name: str, *, url_of: Callable[[AgentView], str]
    ) -> AgentView:
        """Return an agent. Args: `url_of` returns the URL of this request for the successor of a replaced agent.

        Raises: Refused.
        """
        agent = await self._found(caller, namespace, name)
        if agent is None:
            raise Refused(404, _HIDDEN)
        is_itself = isinstance(caller, AgentPrincipal) and caller.identity == (namespace, name)
        if is_itself or not is_replaced(agent):
            return agent
        found = successor(agent, self._fleet.agents)
        if found is None or await self._found(caller, found.namespace, found.name) is None:
            raise Refused(410, REPLACED)
        raise Refused(308, replaced_by(found), {"Location": url_of(found)})

    async def _found(self, caller: Principal, namespace: str, name: str) -> AgentView | None:
        try:
            return await self._visibility.find(caller, namespace, name)
        except IdentityError as error:
            raise self._admission.refusal(error) from None

    async def list(self, caller: Principal, namespace: str = "") -> Sequence[Document]:
        """Return the documents of all visible agents. Raises: Refused."""
        try:
            agents = await self._visibility.list(caller, namespace)
        except IdentityError as error:
            raise self._admission.refusal(error) from None
        return self.index.documents(agents)

    async def listed(self, caller: Principal, namespace: str, name: str) -> Document | None:
        """Return the document of an agent if a list of the caller shows it. Raises: Refused."""
        try:
            agent = await self._visibility.listed(caller, namespace, name)
        except IdentityError as error:
            raise self._admission.refusal(error) from None
        return None if agent is None else self.index.document(agent)

    async def spaces(self, caller: Principal) -> Collection[str]:
        """Return the namespaces whose agents a person sees; empty for other callers. Raises: Refused."""
        try:
            return await self._visibility.spaces(caller)
        except IdentityError as error:
            raise self._admission.refusal(error) from None

    async def reason(self, caller: Principal, namespace: str, name: str) -> str | None:
        try:
            return await self._visibility.reason(caller, namespace, name)
        except IdentityError as error:
            raise self._admission.refusal(error) from None
