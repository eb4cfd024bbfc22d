"""The registry under `/v1`. It shows exactly the agents that the caller may call; others do not exist for it."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Query, Request
from starlette.responses import Response

from fleetwright_api.fleet.communication import colleagues
from fleetwright_api.fleet.hierarchy import parent_of
from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.addresses import Addresses, agent_url
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.cards import CardResponses
from fleetwright_gateway.http.errors import refuse_unknown_parameters
from fleetwright_gateway.http.protected import caller_of
from fleetwright_gateway.registry.directory import Directory
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
from fleetwright_gateway.registry.search_index import Document, Filters

Text = Annotated[str, Query(max_length=200)]
PageSize = Annotated[int, Query(alias="pageSize", ge=1, le=MAX_PAGE)]
PageToken = Annotated[str, Query(alias="pageToken", max_length=64)]
_MOST_PEERS: Final = 200
"""The size of a page of peers without `pageSize`. Agents with an earlier runtime read one page only."""


def v1_routes(directory: Directory, fleet: Fleet, cards: CardResponses, addresses: Addresses) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["registry"], dependencies=[Depends(refuse_unknown_parameters)])

    def base_of(request: Request) -> str:
        return addresses.for_host(request.headers.get("host", ""))

    def same_request(request: Request, suffix: str = "") -> Callable[[AgentView], str]:
        query = f"?{request.url.query}" if request.url.query else ""
        return lambda found: f"{base_of(request)}/v1/agents/{found.namespace}/{found.name}{suffix}{query}"

    def page_response(request: Request, documents: Sequence[Document], size: int, token: str) -> AgentPage:
        page = page_of(documents, size=size, token=token)
        items = [AgentModel(**_fields(each, base_of(request))) for each in page.items]
        return AgentPage(items=items, total=page.total, next_page_token=page.next_token)

    @router.get("/agents", summary="Agents that the caller may call")
    async def list_agents(
        request: Request,
        namespace: Text = "",
        text: Text = "",
        skill: Text = "",
        tag: Text = "",
        phase: Text = "",
        page_size: PageSize = 50,
        page_token: PageToken = "",
    ) -> AgentPage:
        filters = Filters(text=text, skill=skill, tag=tag, phase=phase)
        documents = await directory.list(caller_of(request.scope).principal, namespace)
        return page_response(request, filters.apply(documents), page_size, page_token)

    @router.get("/agents/{namespace}/{name}", summary="One agent")
    async def get_agent(request: Request, namespace: str, name: str) -> AgentDetail:
        caller = caller_of(request.scope).principal
        agent = await directory.find(caller, namespace, name, url_of=same_request(request))
        parent = parent_of(agent)
        sees_parent = parent is not None and await directory.reason(caller, *parent) is not None
        return AgentDetail(
            **_fields(directory.index.document(agent), base_of(request)),
            reason=await directory.reason(caller, namespace, name) or "",
            parent=parent[1] if parent is not None and sees_parent else None,
        )

    @router.get("/agents/{namespace}/{name}/card", summary="The A2A card of an agent at the gateway")
    async def get_card(request: Request, namespace: str, name: str) -> Any:
        caller = caller_of(request.scope).principal
        agent = await directory.find(caller, namespace, name, url_of=same_request(request, "/card"))
        response: Response | None = cards.response(agent, request.headers)
        if response is None:
            raise Refused(503, "The card of this agent is not known yet.", {"Retry-After": "5"})
        return response

    @router.get("/agents/{namespace}/{name}/peers", summary="Agents that this agent and the caller may both call")
    async def list_peers(
        request: Request,
        namespace: str,
        name: str,
        text: Text = "",
        page_size: Annotated[int | None, Query(alias="pageSize", ge=1, le=MAX_PAGE)] = None,
        page_token: PageToken = "",
    ) -> AgentPage:
        caller = caller_of(request.scope).principal
        agent = await directory.find(caller, namespace, name, url_of=same_request(request, "/peers"))
        near = set(colleagues((agent.namespace, agent.name), fleet.agents, fleet.namespace_labels))
        seen = [each for each in await directory.list(caller) if (each.view.namespace, each.view.name) in near]
        return page_response(request, Filters(text=text).apply(seen), page_size or _MOST_PEERS, page_token)

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
            SkillModel(id=each.id, name=each.name, description=each.description, tags=list(each.tags))
            for each in document.skills
        ],
        "outcomes": outcomes,
        "weight": weight_of(outcomes),
    }
