"""Reads everything that an agent's reconcile needs, before it decides anything. Missing objects are None.

This module reads only the cache, so a reconcile that changes nothing makes no request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity, NamespaceLabels, callers_of, identity_of, peers_of
from fleetwright_api.skill_selection import skill_names
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_api.spec.skill import SkillView
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.skill_permissions import Needs
from fleetwright_operator.build.config.tool_access import credential_keys
from fleetwright_operator.build.network.addresses import HostAddress, UnusableAddress
from fleetwright_operator.build.network.egress import Services, named_addresses
from fleetwright_operator.build.pod.file_references import file_references
from fleetwright_operator.build.pod.template_sources import environment_places, volume_places
from fleetwright_operator.credentials.keyring import Ring
from fleetwright_operator.credentials.push_keys import PushKeys
from fleetwright_operator.credentials.revocations import WrittenCallers
from fleetwright_operator.credentials.rotating_token import RotatingToken
from fleetwright_operator.credentials.stored_credentials import (
    CallersList,
    StoredToken,
    caller_tokens,
    callers_list,
    client_tokens,
    peer_tokens,
    push_keys,
    stored_ring,
    written_callers,
)
from fleetwright_operator.kinds.views import agent_of, server_of, skill_of
from fleetwright_operator.observe.approvals import has_undelivered_decision
from fleetwright_operator.observe.hierarchy import ObservedHierarchy, observe_hierarchy
from fleetwright_operator.observe.index_keys import account_key
from fleetwright_operator.observe.references import live, live_metadata, observe_secrets, observe_services, version_of
from fleetwright_operator.observe.successors import ObservedSuccessors, observe_successors
from fleetwright_operator.observe.workspace import ObservedWorkspace, observe_workspace
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_report import AgentReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAgent:
    """An Agent and everything it refers to. Mappings are by name within the namespace."""

    entry: CachedObject
    agent: AgentView
    """The Agent. Its `spec.suspend` is set if the agent is suspended together with an ancestor."""
    team: ObservedHierarchy
    successors: ObservedSuccessors
    skills: Mapping[str, SkillView | None]
    snapshots: Mapping[str, CachedObject]
    """By skill: the ConfigMap that the skill's status names, if it exists."""
    mounted_snapshots: Mapping[str, CachedObject]
    """By skill: the ConfigMap with the skill's files that the Deployment mounts, even if the Skill was deleted."""
    servers: Mapping[str, McpServerView | None]
    peers: Mapping[Identity, AgentView | None]
    namespace_labels: NamespaceLabels
    """Labels of the namespaces of this agent and of the agents that name this agent as a peer."""
    callers: tuple[Identity, ...]
    """The agents that name this agent as a peer and that this agent allows."""
    caller_uids: frozenset[str]
    """The uids of these agents."""
    account_sharers: tuple[str, ...]
    """The names of the other Agents with this agent's ServiceAccount."""
    written_callers: WrittenCallers
    referenced: Mapping[tuple[str, str], CachedObject | None]
    """By (kind, name): metadata of the Secrets and ConfigMaps whose files the pod mounts."""
    template_files: Mapping[tuple[str, str], CachedObject | None]
    """By (kind, name): metadata of the Secrets and ConfigMaps in the volumes of a `podTemplate`."""
    environment: Mapping[tuple[str, str], CachedObject | None]
    """By (kind, name): metadata of the Secrets and ConfigMaps in the environment of a `podTemplate`."""
    server_secrets: Mapping[str, CachedObject | None]
    """Metadata of the Secrets with the McpServers' credentials."""
    services: Services
    client_tokens: Mapping[str, StoredToken]
    own_tokens: Mapping[str, StoredToken]
    """By `<namespace>/<name>` of a peer: the token in this agent's auth Secret."""
    caller_tokens: Mapping[str, RotatingToken]
    """By `<namespace>/<name>` of a caller: its token for this agent."""
    own_list: CallersList
    push_keys: PushKeys
    push_rotation_request: str
    children: tuple[CachedObject, ...]
    memory_claim: CachedObject | None
    """The claim with the memory, which may be older than the Agent."""
    workspace: ObservedWorkspace | None
    """None if the agent has no workspace, and nothing of an earlier one is left."""
    card_keys: Ring
    gateway_keys: Ring
    has_decision: bool
    """True if an Approval of the agent has a decision that the agent has not answered."""
    report: AgentReport | None
    """The report of the agent's current pod; None before it was read."""
    ending_report: AgentReport | None
    """The report of a pod of the agent that ends."""

    @property
    def existing_peers(self) -> dict[str, AgentView]:
        """Return the declared peers that exist, by name."""
        return {name: agent for (_, name), agent in self.peers.items() if agent is not None}

    @property
    def needs(self) -> Needs:
        return needs_of(self.skills)

    @property
    def referenced_versions(self) -> list[str]:
        """Return the versions of all referenced objects that the pod mounts or takes its environment from."""
        files, secrets = sorted(self.referenced.items()), sorted(self.server_secrets.items())
        mounted = [*files, *secrets, *sorted(self.template_files.items())]
        return [*(version_of(entry) for _, entry in mounted), *self.environment_versions]

    @property
    def environment_versions(self) -> list[str]:
        return [version_of(entry) for _, entry in sorted(self.environment.items())]

    def child(self, kind: str, name: str) -> CachedObject | None:
        return next((child for child in self.children if (child.kind, child.name) == (kind, name)), None)

    def of_kind(self, kind: str) -> list[CachedObject]:
        return [child for child in self.children if child.kind == kind]


def observe_agent(
    cache: Cache, entry: CachedObject, *, settings: Settings, report: AgentReport | None
) -> ObservedAgent:
    space = entry.namespace
    team = observe_hierarchy(agent_of(entry), partial(_agent, cache))
    agent = _suspended(agent_of(entry)) if team.suspended_with else agent_of(entry)
    skills = _skills(cache, agent)
    servers = _servers(cache, agent)
    peers = {peer: live(cache, names.AGENT, *peer) for peer in peers_of(agent)}
    calling = [agent_of(caller) for caller in cache.find("calls", space, entry.name) if not caller.deleting]
    labels = _namespace_labels(cache, {space, *(caller.namespace for caller in calling)})
    callers = callers_of(agent, calling, labels)
    children = tuple(cache.find("child-of", *entry.id))
    keys, rotation_request = push_keys(cache, entry)
    return ObservedAgent(
        entry=entry,
        agent=agent,
        team=team,
        successors=observe_successors(agent, partial(_agent, cache)),
        skills=skills,
        snapshots=_snapshots(cache, skills),
        mounted_snapshots=_mounted_snapshots(cache, entry),
        servers=servers,
        peers={peer: agent_of(found) if found else None for peer, found in peers.items()},
        namespace_labels=labels,
        callers=callers,
        caller_uids=frozenset(each.uid for each in calling if identity_of(each) in callers),
        account_sharers=tuple(each.name for each in cache.find(*account_key(agent_of(entry))) if each.uid != entry.uid),
        written_callers=written_callers(cache, space, entry.name),
        referenced=live_metadata(cache, space, {reference.object for reference in file_references(agent.spec)}),
        template_files=live_metadata(cache, space, volume_places(agent.spec.pod_template)),
        environment=live_metadata(cache, space, environment_places(agent.spec.pod_template)),
        server_secrets=observe_secrets(
            cache, space, [key for server in servers.values() if server for key in credential_keys(server)]
        ),
        services=observe_services(cache, _addresses(agent, servers, needs_of(skills), settings)),
        client_tokens=client_tokens(cache, entry),
        own_tokens=peer_tokens(cache, space, entry.name),
        own_list=callers_list(cache, space, entry.name),
        caller_tokens=caller_tokens(cache, entry, callers),
        push_keys=keys,
        push_rotation_request=rotation_request,
        children=children,
        memory_claim=cache.get("PersistentVolumeClaim", space, names.agent_memory(entry.name)),
        workspace=observe_workspace(cache, entry, agent, settings=settings),
        card_keys=stored_ring(cache.get(names.CARD_KEYS, *settings.card_keys_place)),
        gateway_keys=_gateway_keys(cache, settings),
        has_decision=has_undelivered_decision(cache, entry),
        report=report if report and _is_of(report, children) else None,
        ending_report=report if report and _is_of(report, children, ending=True) else None,
    )


def _agent(cache: Cache, identity: Identity) -> AgentView | None:
    found = live(cache, names.AGENT, *identity)
    return None if found is None else agent_of(found)


def _suspended(agent: AgentView) -> AgentView:
    return replace(agent, spec=replace(agent.spec, suspend=True))


def _gateway_keys(cache: Cache, settings: Settings) -> Ring:
    place = settings.gateway_keys_place
    return () if place is None else stored_ring(cache.get(names.GATEWAY_KEYS, *place))


def _is_of(report: AgentReport, children: Iterable[CachedObject], *, ending: bool = False) -> bool:
    """Return whether the report is from a pod that still exists. Reports of earlier pods are outdated."""
    return any((child.kind, child.name, child.deleting) == ("Pod", report.pod, ending) for child in children)


def _skills(cache: Cache, agent: AgentView) -> dict[str, SkillView | None]:
    found = skill_names(agent.spec, _skill_labels(cache, agent))
    skills = {name: live(cache, names.SKILL, agent.namespace, name) for name in found}
    return {name: skill_of(entry) if entry else None for name, entry in skills.items()}


def _servers(cache: Cache, agent: AgentView) -> dict[str, McpServerView | None]:
    servers = {use.name: live(cache, names.MCP_SERVER, agent.namespace, use.name) for use in agent.spec.mcp_servers}
    return {name: server_of(entry) if entry else None for name, entry in servers.items()}


def _skill_labels(cache: Cache, agent: AgentView) -> dict[str, Mapping[str, str]]:
    """Return the labels of the Skills in the namespace, if the agent selects Skills by label."""
    if agent.spec.skill_selector is None:
        return {}
    skills = cache.find("in", names.SKILL, agent.namespace)
    return {skill.name: skill.labels for skill in skills if not skill.deleting}


def _namespace_labels(cache: Cache, namespaces: Iterable[str]) -> dict[str, Mapping[str, str]]:
    found = {name: cache.get("NamespaceMetadata", "", name) for name in namespaces}
    return {name: entry.labels for name, entry in found.items() if entry is not None}


def needs_of(skills: Mapping[str, SkillView | None]) -> Needs:
    """Return the permissions that each Skill's reconcile has accepted, together with the origin of its files."""
    return {name: skill.needs for name, skill in skills.items() if skill is not None}


def _addresses(
    agent: AgentView, servers: Mapping[str, McpServerView | None], needs: Needs, settings: Settings
) -> list[HostAddress]:
    found = {name: server for name, server in servers.items() if server is not None}
    try:
        return [address for _, address in named_addresses(agent, found, needs, settings)]
    except UnusableAddress:
        return []  # the checks report it


def _mounted_snapshots(cache: Cache, agent: CachedObject) -> dict[str, CachedObject]:
    deployment = cache.get("Deployment", agent.namespace, agent.name)
    mounts = deployment.projection["mounts"] if deployment else frozenset()
    found = [cache.get("ConfigMap", agent.namespace, name) for name in sorted(mounts)]
    return {entry.labels[names.SKILL_LABEL]: entry for entry in found if entry and names.SKILL_LABEL in entry.labels}


def _snapshots(cache: Cache, skills: Mapping[str, SkillView | None]) -> dict[str, CachedObject]:
    found = {
        name: cache.get("ConfigMap", skill.namespace, skill.status.get("snapshot", ""))
        for name, skill in skills.items()
        if skill is not None
    }
    return {name: entry for name, entry in found.items() if entry is not None and not entry.deleting}
