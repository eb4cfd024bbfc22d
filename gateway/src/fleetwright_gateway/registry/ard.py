"""Agentic Resource Discovery (ARD) 0.91: the same registry for clients of this proposal.

This module is the only one that knows the format. Search and lookup are mandatory there, and the list is optional;
facets (`/explore`) are optional and not offered. There is no federation with other registries.
"""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, Final, Literal

from fastapi import APIRouter, Depends, Query, Request
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError
from starlette.responses import JSONResponse

from fleetwright_api.spec.agent import AgentView
from fleetwright_gateway.http.addresses import Addresses, agent_url
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.errors import refuse_unknown_parameters
from fleetwright_gateway.http.protected import caller_of
from fleetwright_gateway.registry.directory import Directory
from fleetwright_gateway.registry.models import RegistryModel
from fleetwright_gateway.registry.pages import MAX_PAGE, page_of
from fleetwright_gateway.registry.search_index import Document, TextQuery

CARD_TYPE: Final = "application/a2a-agent-card+json"
_REGISTRY_TYPE: Final = "application/ai-registry+json"
_SEGMENT: Final = r"[A-Za-z0-9._-]+"
_URN: Final = re.compile(rf"urn:air:({_SEGMENT})((?::{_SEGMENT})+)")
_QUERIES: Final = 5
_SEPARATORS: Final = re.compile("[-_ ]")
_MEMBERS: Final = {
    "query": "query",
    "text": "text in query",
    "filter": "filter in query",
    "federation": "federation beside query",
    "pagesize": "pageSize beside query",
    "pagetoken": "pageToken beside query",
}
"""The places of the members of a search, by their names in lower case without separators."""
Scalar = str | int | float | bool


class _SearchModel(RegistryModel):
    """A part of a search. Unknown members are ignored, because later versions may add some.

    A known member at the wrong place, or with other capitals, separators or a plural, is refused: without it, the
    answer would be wider.
    """

    @model_validator(mode="before")
    @classmethod
    def _refuse_misplaced_members(cls, given: Any) -> Any:
        known = {str(field.alias) for field in cls.model_fields.values()} | set(cls.model_fields)
        for name in sorted(set(given) - known) if isinstance(given, Mapping) else ():
            if meant := _MEMBERS.get(_SEPARATORS.sub("", name).lower().removesuffix("s")):
                where = {"name": repr(name[:40]), "meant": meant}
                raise PydanticCustomError("misplaced", "there is no member {name} here; write {meant}", where)
        return given


class SearchQuery(_SearchModel):
    model_config = ConfigDict(strict=True)
    text: Annotated[str, Field(min_length=1, max_length=2000)]
    filter: dict[str, Scalar | list[Scalar]] = Field(default_factory=dict)


class SearchRequest(_SearchModel):
    model_config = ConfigDict(strict=True)
    query: SearchQuery
    federation: Literal["auto", "referrals", "none"] = "auto"
    page_size: Annotated[int, Field(ge=1, le=MAX_PAGE)] = 10
    page_token: Annotated[str, Field(max_length=64)] | None = None


class ArdEntries:
    """Builds the entries of agents. Pure."""

    def __init__(self, addresses: Addresses, *, publisher: str) -> None:
        self._addresses = addresses
        self.publisher = publisher

    def source(self, request: Request) -> str:
        """Return the address of this registry, as the caller sees it."""
        return self._addresses.for_host(request.headers.get("host", ""))

    def identifier(self, view: AgentView) -> str:
        return f"urn:air:{self.publisher}:{view.namespace}:{view.name}"

    def url(self, request: Request, view: AgentView) -> str:
        """Return the address of an entry in this registry."""
        return f"{self.source(request)}/agents/{self.identifier(view)}"

    def entry(self, document: Document, source: str) -> dict[str, Any]:
        view = document.view
        return {
            "identifier": self.identifier(view),
            "displayName": str(document.card.get("name") or view.name),
            "type": CARD_TYPE,
            "url": f"{agent_url(source, view)}/.well-known/agent-card.json",
            "description": document.description,
            "version": view.spec.version,
            "tags": sorted(document.tags),
            "representativeQueries": _queries(document),
            "metadata": {
                "namespace": view.namespace,
                "phase": document.phase,
                "skills": [each.id for each in document.skills],
            },
        }

    def match(self, document: Document, asked: SearchRequest) -> bool:
        """Return whether an entry matches all keys of the filter. Within a key, one value is enough."""
        values = {**self.entry(document, ""), "publisher": self.publisher}
        wanted = asked.query.filter.items()
        return all(bool(set(_listed(each)) & set(_listed(_value(values, key)))) for key, each in wanted)

    def manifest(self, source: str) -> dict[str, Any]:
        """Return the public manifest. It names the registry, and no agent, because agents depend on the caller."""
        entry = {
            "identifier": f"urn:air:{self.publisher}:registry",
            "displayName": "Fleetwright gateway",
            "type": _REGISTRY_TYPE,
            "url": source,
            "description": "The agents of this installation that the caller may call.",
            "representativeQueries": ["Which agents can I call?", "Which agent has a certain skill?"],
        }
        return {"entries": [entry]}


def ard_routes(directory: Directory, entries: ArdEntries) -> APIRouter:
    router = APIRouter(tags=["ARD"], dependencies=[Depends(refuse_unknown_parameters)])

    async def described(request: Request) -> list[Document]:
        """Return the visible agents that have a card."""
        return [each for each in await directory.list(caller_of(request.scope).principal) if each.card]

    @router.get("/.well-known/ard.json", summary="The manifest of this registry")
    async def manifest(request: Request) -> Any:
        return JSONResponse(entries.manifest(entries.source(request)), headers={"Cache-Control": "public, max-age=300"})

    @router.post("/search", summary="Search by text")
    async def search(request: Request, asked: SearchRequest) -> Any:
        source, query = entries.source(request), TextQuery(asked.query.text)
        # A filter is compared with whole entries, so only the agents that the text has found are compared.
        ranked = query.ranked(await described(request))
        if asked.query.filter:
            ranked = [each for each in ranked if entries.match(each, asked)]
        page = page_of(ranked, size=asked.page_size, token=asked.page_token)
        results = [{**entries.entry(each, source), "score": query.score(each), "source": source} for each in page.items]
        return {"results": results, "referrals": [], **_next(page.next_token)}

    @router.get("/agents", summary="All agents that the caller may call")
    async def list_agents(
        request: Request,
        page_size: Annotated[int, Query(alias="pageSize", ge=1, le=MAX_PAGE)] = 10,
        page_token: Annotated[str, Query(alias="pageToken", max_length=64)] = "",
    ) -> Any:
        page = page_of(await described(request), size=page_size, token=page_token)
        return {
            "items": [entries.entry(each, entries.source(request)) for each in page.items],
            "total": page.total,
            **_next(page.next_token),
        }

    @router.get("/agents/{identifier}", summary="One agent by its identifier")
    async def get_agent(request: Request, identifier: str) -> Any:
        found = _URN.fullmatch(identifier)
        if found is None:
            raise Refused(400, "identifier: it must have the form urn:air:<publisher>:<namespace>:<name>.")
        place = found[2].split(":")[1:]
        if found[1] != entries.publisher or len(place) != 2:
            raise Refused(404, "There is no entry with this identifier.")
        try:
            caller = caller_of(request.scope).principal
            agent = await directory.find(caller, place[0], place[1], url_of=partial(entries.url, request))
        except Refused as refusal:
            detail = "There is no entry with this identifier." if refusal.status == 404 else refusal.sentence
            raise Refused(refusal.status, detail, refusal.headers) from None
        document = directory.index.document(agent)
        if not document.card:
            raise Refused(404, "There is no entry with this identifier.")
        return entries.entry(document, entries.source(request))

    @router.post("/explore", summary="Facets, which are not offered", status_code=501)
    async def explore() -> Any:
        raise Refused(501, "Facets are not offered. Use POST /search.")

    return router


def _next(token: str | None) -> dict[str, str]:
    return {} if token is None else {"pageToken": token}


def _queries(document: Document) -> list[str]:
    told = [document.description, *(each.description for each in document.skills)]
    told += [f"What can {document.view.name} do?", f"Ask {document.view.name} for help"]
    return list(dict.fromkeys(text for text in told if text))[:_QUERIES]


def _value(entry: Mapping[str, Any], path: str) -> Any:
    found: Any = entry
    for part in path.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _listed(value: Any) -> Sequence[Scalar]:
    values = value if isinstance(value, list) else [value]
    return [each for each in values if isinstance(each, str | int | float | bool)]
