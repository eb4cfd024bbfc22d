"""Every read of an agent's pass, before anything is decided. What was not found is None.

Reads the cache only: a pass that changes nothing makes no request.
"""

import base64
import binascii
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from fleetwright_operator import names
from fleetwright_operator.cluster.cache import Cache
from fleetwright_operator.cluster.entry import Entry
from fleetwright_operator.desired.addresses import Address, ServiceFacts, UnusableAddress
from fleetwright_operator.desired.config import api_key_reference
from fleetwright_operator.desired.egress import Services, named_addresses
from fleetwright_operator.edges import Agent, callers_of, peer_names
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAgent:
    """Mappings are by name within the namespace."""

    entry: Entry
    skills: Mapping[str, Entry | None]
    snapshots: Mapping[str, Entry]
    """By skill: the ConfigMap that the skill's status names, where it exists."""
    servers: Mapping[str, Agent | None]
    peers: Mapping[str, Agent | None]
    callers: tuple[str, ...]
    """The agents that may call this one and want to."""
    key_secret: Entry | None
    """Metadata of the Secret that holds the provider's key."""
    services: Services
    client_tokens: Mapping[str, str]
    own_tokens: Mapping[str, str]
    """By `<namespace>/<name>` of a peer: what lies in this agent's auth Secret."""
    caller_tokens: Mapping[str, str]
    """By `<namespace>/<name>` of a caller: what it holds for this agent."""
    children: tuple[Entry, ...]
    unreachable: Mapping[str, str]
    """By McpServer: why the running agent could not reach it, as far as it said so."""

    @property
    def agent(self) -> Agent:
        return self.entry.facts

    def child(self, kind: str, name: str) -> Entry | None:
        return next((child for child in self.children if (child.kind, child.name) == (kind, name)), None)

    def of_kind(self, kind: str) -> list[Entry]:
        return [child for child in self.children if child.kind == kind]


def observe_agent(cache: Cache, entry: Entry, *, settings: Settings, unreachable: Mapping[str, str]) -> ObservedAgent:
    space, agent = entry.namespace, entry.facts
    spec = agent["spec"]
    skills = {use["name"]: _live(cache, names.SKILL, space, use["name"]) for use in spec.get("skills", ())}
    servers = {use["name"]: _live(cache, names.MCP_SERVER, space, use["name"]) for use in spec.get("mcpServers", ())}
    peers = {name: _live(cache, names.AGENT, space, name) for name in peer_names(agent)}
    calling = [caller.facts for caller in cache.find("calls", space, entry.name) if not caller.deleting]
    callers = callers_of(agent, calling)
    key = api_key_reference(agent)
    server_facts = _facts(servers)
    return ObservedAgent(
        entry=entry,
        skills=skills,
        snapshots=_snapshots(cache, skills),
        servers=server_facts,
        peers=_facts(peers),
        callers=callers,
        key_secret=cache.get("SecretMetadata", space, key[0]) if key else None,
        services=observe_services(cache, _addresses(agent, server_facts, settings)),
        client_tokens=_client_tokens(cache, entry),
        own_tokens=_peer_tokens(cache, space, entry.name),
        caller_tokens=_caller_tokens(cache, entry, callers),
        children=tuple(cache.find("child-of", *entry.id)),
        unreachable=unreachable,
    )


def observe_services(cache: Cache, addresses: Iterable[Address]) -> dict[tuple[str, str], ServiceFacts]:
    """The Services that addresses name, as far as they exist."""
    wanted = {address.service for address in addresses if address.service}
    found = {service: cache.get("Service", *service) for service in wanted}
    return {
        service: ServiceFacts(selector=entry.facts["selector"], ports=entry.facts["ports"])
        for service, entry in found.items()
        if entry is not None and not entry.deleting
    }


def _live(cache: Cache, kind: str, namespace: str, name: str) -> Entry | None:
    entry = cache.get(kind, namespace, name)
    return None if entry is None or entry.deleting else entry


def _facts(entries: Mapping[str, Entry | None]) -> dict[str, Agent | None]:
    return {name: entry.facts if entry else None for name, entry in entries.items()}


def _addresses(agent: Agent, servers: Mapping[str, Agent | None], settings: Settings) -> list[Address]:
    found = {name: server for name, server in servers.items() if server is not None}
    try:
        return [address for _, address in named_addresses(agent, found, settings)]
    except UnusableAddress:
        return []  # checks.py says which


def _snapshots(cache: Cache, skills: Mapping[str, Entry | None]) -> dict[str, Entry]:
    found = {
        name: cache.get("ConfigMap", skill.namespace, skill.facts["status"].get("snapshot", ""))
        for name, skill in skills.items()
        if skill is not None
    }
    return {name: entry for name, entry in found.items() if entry is not None and not entry.deleting}


def _client_tokens(cache: Cache, entry: Entry) -> dict[str, str]:
    prefix = names.agent_client(entry.name, "")
    return {
        secret.name.removeprefix(prefix): _decoded(secret, names.TOKEN_KEY)
        for secret in cache.find("child-of", *entry.id)
        if secret.kind == "Secret" and secret.name.startswith(prefix)
    }


def _peer_tokens(cache: Cache, namespace: str, agent: str) -> dict[str, str]:
    secret = cache.get("Secret", namespace, names.agent_auth(agent))
    if secret is None or not secret.is_ours:
        return {}
    peers = {key: names.peer_of_token_key(key) for key in secret.facts["data"]}
    return {names.qualified(*peer): _decoded(secret, key) for key, peer in peers.items() if peer}


def _caller_tokens(cache: Cache, callee: Entry, callers: tuple[str, ...]) -> dict[str, str]:
    own = names.qualified(callee.namespace, callee.name)
    held = {caller: _peer_tokens(cache, callee.namespace, caller).get(own) for caller in callers}
    return {names.qualified(callee.namespace, caller): token for caller, token in held.items() if token}


def _decoded(secret: Entry, key: str) -> str:
    """The text of a key, or nothing that anybody would take for a token."""
    data: Mapping[str, Any] = secret.facts["data"]
    try:
        return base64.b64decode(data.get(key, "")).decode()
    except (binascii.Error, UnicodeDecodeError):
        return ""
