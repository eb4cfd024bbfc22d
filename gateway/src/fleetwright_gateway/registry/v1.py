"""The registry under `/v1`. It shows exactly the agents that the caller may call; others do not exist for it."""

from collections.abc import Collection, Sequence
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from fleetwright_api.fleet.communication import colleagues
from fleetwright_api.fleet.hierarchy import parent_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses, agent_url
from fleetwright_gateway.http.admission import Refused, RequestAdmission
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.http.protected import caller_of
from fleetwright_gateway.identity.errors import IdentityError
from fleetwright_gateway.identity.principals import Principal
from fleetwright_gateway.registry.models import (
    AccessAnswer,
    AccessQuestion,
    AgentDetail,
    AgentModel,
    AgentPage,
    SkillModel,
)
from fleetwright_gateway.registry.outcomes import outcomes_of, weight_of
from fleetwright_gateway.registry.pages import MAX_PAGE, page_of
from fleetwright_gateway.registry.search_index import Document, Filters, SearchIndex

_HIDDEN = "There is no such agent, or this caller may not call it."
Text = Annotated[str, Query(max_length=200)]


class Directory:
    """The agents that a caller may see, for all APIs of the registry."""

    def __init__(self, visibility: Visibility, admission: RequestAdmission, index: SearchIndex) -> None:
        self._visibility = visibility
        self._admission = admission
        self.index = index

    async def find(self, caller: Principal, namespace: str, name: str) -> AgentView:
        """Return an agent. Raises: Refused."""
        try:
            agent = await self._visibility.find(caller, namespace, name)
        except IdentityError as error:
            raise self._admission.refusal(error) from None
        if agent is None:
            raise Refused(404, _HIDDEN)
        return agent

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


def v1_routes(directory: Directory, fleet: Fleet, cards: CardResponses, addresses: Addresses) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["registry"])

    def base_of(request: Request) -> str:
        return addresses.for_host(request.headers.get("host", ""))

    @router.get("/agents", summary="Agents that the caller may call")
    async def list_agents(
        request: Request,
        namespace: Text = "",
        text: Text = "",
        skill: Text = "",
        tag: Text = "",
        phase: Text = "",
        page_size: Annotated[int, Query(alias="pageSize", ge=1, le=MAX_PAGE)] = 50,
        page_token: Annotated[str, Query(alias="pageToken", max_length=64)] = "",
    ) -> AgentPage:
        filters = Filters(text=text, skill=skill, tag=tag, phase=phase)
        documents = await directory.list(caller_of(request.scope).principal, namespace)
        page = page_of(filters.apply(documents), size=page_size, token=page_token)
        items = [AgentModel(**_fields(each, base_of(request))) for each in page.items]
        return AgentPage(items=items, total=page.total, next_page_token=page.next_token)

    @router.get("/agents/{namespace}/{name}", summary="One agent")
    async def get_agent(request: Request, namespace: str, name: str) -> AgentDetail:
        caller = caller_of(request.scope).principal
        agent = await directory.find(caller, namespace, name)
        parent = parent_of(agent)
        return AgentDetail(
            **_fields(directory.index.document(agent), base_of(request)),
            reason=await directory.reason(caller, namespace, name) or "",
            parent=None if parent is None else parent[1],
        )

    @router.get("/agents/{namespace}/{name}/card", summary="The A2A card of an agent at the gateway")
    async def get_card(request: Request, namespace: str, name: str) -> Any:
        agent = await directory.find(caller_of(request.scope).principal, namespace, name)
        response: Response | None = cards.response(agent, request.headers)
        if response is None:
            raise Refused(503, "The card of this agent is not known yet.", {"Retry-After": "5"})
        return response

    @router.get("/agents/{namespace}/{name}/peers", summary="Agents that this agent and the caller may both call")
    async def list_peers(request: Request, namespace: str, name: str) -> AgentPage:
        caller = caller_of(request.scope).principal
        agent = await directory.find(caller, namespace, name)
        near = set(colleagues((agent.namespace, agent.name), fleet.agents, fleet.namespace_labels))
        seen = [each for each in await directory.list(caller) if (each.view.namespace, each.view.name) in near]
        items = [AgentModel(**_fields(each, base_of(request))) for each in seen]
        return AgentPage(items=items, total=len(items))

    @router.post("/check-access", summary="Whether the caller may call an agent")
    async def check_access(request: Request, question: AccessQuestion) -> AccessAnswer:
        caller = caller_of(request.scope).principal
        reason = await directory.reason(caller, question.namespace, question.name)
        return AccessAnswer(allowed=reason is not None, reason=reason)

    return router


def _fields(document: Document, base: str) -> dict[str, Any]:
    view = document.view
    outcomes = outcomes_of(view.status)
    return {
        "namespace": view.namespace,
        "name": view.name,
        "url": agent_url(base, view),
        "description": document.description,
        "version": view.spec.version,
        "phase": document.phase,
        "skills": [
            SkillModel(
                id=str(each.get("id", "")),
                name=str(each.get("name", "")),
                description=str(each.get("description", "")),
                tags=[str(tag) for tag in each.get("tags") or ()],
            )
            for each in document.skills
        ],
        "outcomes": outcomes,
        "weight": weight_of(outcomes),
    }
