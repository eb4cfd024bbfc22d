"""Which object concerns which: the terms of the cache, and who must look again after a change. Pure."""

from collections.abc import Iterator
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.cluster.cache import Cache, Change, Term
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.cluster.port import RESOURCES
from fleetwright_operator.desired.addresses import UnusableAddress, parse_address
from fleetwright_operator.desired.config import api_key_reference, model_base_url
from fleetwright_operator.edges import peer_names
from fleetwright_operator.settings import Settings

Key = tuple[str, str, str]
"""(kind, namespace, name) of an Agent, a Skill or an McpServer."""

OWN_KINDS = (names.AGENT, names.SKILL, names.MCP_SERVER)
_LABELS = {names.AGENT_LABEL: names.AGENT, names.MCP_SERVER_LABEL: names.MCP_SERVER, names.SKILL_LABEL: names.SKILL}


class Relations:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def terms(self, entry: Entry) -> Iterator[Term]:
        yield ("in", entry.kind, entry.namespace)
        if entry.kind not in OWN_KINDS:
            for owner in _owners(entry):
                yield ("child-of", *owner)
        elif entry.kind == names.AGENT:
            yield from self._agent_terms(entry)
        elif entry.kind == names.SKILL:
            if source := entry.facts["spec"].get("source", {}).get("configMap"):
                yield ("source", entry.namespace, source["name"])
        elif remote := entry.facts["spec"].get("remote"):
            yield from self._reaches(entry, remote["url"])

    def affected(self, change: Change, cache: Cache) -> set[Key]:
        """Everybody who may decide differently now."""
        entry = change.entry
        space, name = entry.namespace, entry.name
        match entry.kind:
            case names.AGENT:
                return self._by_agent(change, cache)
            case names.SKILL | names.MCP_SERVER:
                return {entry.id, *_keys(cache, "uses", entry.kind, space, name)}
            case "SecretMetadata":
                return _keys(cache, "key", space, name)
            case "ConfigMapMetadata":
                return _keys(cache, "source", space, name)
            case "Service":
                namesakes = {(names.AGENT, space, name), (names.MCP_SERVER, space, name.removesuffix("-mcp"))}
                return set(_owners(entry)) | self._by_service(cache, space, name) | namesakes
            case "Secret":
                return set(_owners(entry)) | _token_holders(change)
            case "ConfigMap":
                owners = set(_owners(entry))
                users = (_keys(cache, "uses", *owner) for owner in owners if owner[0] == names.SKILL)
                return owners.union(*users)
            case _:
                return {owner for side in (change.before, change.after) if side for owner in _owners(side)}

    def _agent_terms(self, entry: Entry) -> Iterator[Term]:
        agent = entry.facts
        space = entry.namespace
        for skill in agent["spec"].get("skills", ()):
            yield ("uses", names.SKILL, space, skill["name"])
        for server in agent["spec"].get("mcpServers", ()):
            yield ("uses", names.MCP_SERVER, space, server["name"])
        for peer in peer_names(agent):
            yield ("calls", space, peer)
        if key := api_key_reference(agent):
            yield ("key", space, key[0])
        yield from self._reaches(entry, model_base_url(agent, self._settings.catalog))

    def _reaches(self, entry: Entry, url: str) -> Iterator[Term]:
        try:
            address = parse_address(url, namespace=entry.namespace, cluster_domain=self._settings.cluster_domain)
        except UnusableAddress:
            return
        if address.service:
            yield ("reaches", *address.service)

    def _by_agent(self, change: Change, cache: Cache) -> set[Key]:
        entry = change.entry
        if not _respecified(change):
            return set()  # only its status moved, and that is ours
        sides = [side for side in (change.before, change.after) if side]
        neighbours = {
            term[-3:] if term[0] == "uses" else (names.AGENT, *term[1:])
            for side in sides
            for term in self._agent_terms(side)
            if term[0] in {"uses", "calls"}
        }
        callers = _keys(cache, "calls", entry.namespace, entry.name)
        return {entry.id, *callers} | {(str(kind), str(space), str(name)) for kind, space, name in neighbours}

    def _by_service(self, cache: Cache, space: str, name: str) -> set[Key]:
        found = _keys(cache, "reaches", space, name)
        users = (_keys(cache, "uses", *key) for key in found if key[0] == names.MCP_SERVER)
        return found.union(*users)


def _owners(entry: Entry) -> list[Key]:
    """Whom a child belongs to: by our labels, and by its controller in case they were edited.

    A metadata-only view of a child is not the child: whoever prunes would delete the object behind it.
    """
    if not entry.is_ours or RESOURCES[entry.kind].metadata_only:
        return []
    owners = [(kind, entry.namespace, entry.labels[key]) for key, kind in _LABELS.items() if key in entry.labels]
    if entry.controller and entry.controller.kind in OWN_KINDS:
        owners.append((entry.controller.kind, entry.namespace, entry.controller.name))
    return sorted(set(owners))


def _keys(cache: Cache, *term: str) -> set[Key]:
    return {entry.id for entry in cache.find(*term)}


def _token_holders(change: Change) -> set[Key]:
    """The agents that a caller's auth Secret has, or had, a token for: their digests follow."""
    sides: list[dict[str, Any]] = [side.facts["data"] for side in (change.before, change.after) if side]
    peers = [names.peer_of_token_key(key) for data in sides for key in data]
    return {(names.AGENT, *peer) for peer in peers if peer}


def _respecified(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return (before.uid, before.generation, before.deleting) != (after.uid, after.generation, after.deleting)
