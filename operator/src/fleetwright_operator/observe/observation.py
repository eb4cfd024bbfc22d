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
from fleetwright_operator.build.config.permissions import Needs
from fleetwright_operator.build.config.tool_access import SecretKey, credential_keys
from fleetwright_operator.build.mcp_server import environment_sources
from fleetwright_operator.build.network.addresses import HostAddress, ServiceInfo, UnusableAddress, parse_address
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
from fleetwright_operator.observe.team import ObservedTeam, observe_team
from fleetwright_operator.settings import Settings
from fleetwright_operator.status.agent_reports import AgentReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedAgent:
    """An Agent and everything it refers to. Mappings are by name within the namespace."""

    entry: CachedObject
    agent: AgentView
    """The Agent. Its `spec.suspend` is set if the agent is suspended together with an ancestor."""
    team: ObservedTeam
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
    card_keys: Ring
    gateway_keys: Ring
    has_decision: bool
    """True if an Approval of the agent has a decision that the agent has not answered."""
    report: AgentReport | None
    """The report of the agent's current pod; None before it was read."""

    @property
    def needs(self) -> Needs:
        return needs_of(self.skills)

    @property
    def referenced_versions(self) -> list[str]:
        """Return the versions of all referenced objects that the pod mounts or takes its environment from."""
        files, secrets = sorted(self.referenced.items()), sorted(self.server_secrets.items())
        mounted = [*files, *secrets, *sorted(self.template_files.items())]
        return [*(_version(entry) for _, entry in mounted), *self.environment_versions]

    @property
    def environment_versions(self) -> list[str]:
        return [_version(entry) for _, entry in sorted(self.environment.items())]

    def child(self, kind: str, name: str) -> CachedObject | None:
        return next((child for child in self.children if (child.kind, child.name) == (kind, name)), None)

    def of_kind(self, kind: str) -> list[CachedObject]:
        return [child for child in self.children if child.kind == kind]


def observe_agent(
    cache: Cache, entry: CachedObject, *, settings: Settings, report: AgentReport | None
) -> ObservedAgent:
    space = entry.namespace
    team = observe_team(agent_of(entry), partial(_agent, cache))
    agent = _suspended(agent_of(entry)) if team.suspended_with else agent_of(entry)
    skills = _skills(cache, agent)
    servers = _servers(cache, agent)
    peers = {peer: _live(cache, names.AGENT, *peer) for peer in peers_of(agent)}
    calling = [agent_of(caller) for caller in cache.find("calls", space, entry.name) if not caller.deleting]
    labels = _namespace_labels(cache, {space, *(caller.namespace for caller in calling)})
    callers = callers_of(agent, calling, labels)
    children = tuple(cache.find("child-of", *entry.id))
    keys, rotation_request = push_keys(cache, entry)
    return ObservedAgent(
        entry=entry,
        agent=agent,
        team=team,
        skills=skills,
        snapshots=_snapshots(cache, skills),
        mounted_snapshots=_mounted_snapshots(cache, entry),
        servers=servers,
        peers={peer: agent_of(found) if found else None for peer, found in peers.items()},
        namespace_labels=labels,
        callers=callers,
        caller_uids=frozenset(each.uid for each in calling if identity_of(each) in callers),
        written_callers=written_callers(cache, space, entry.name),
        referenced={
            place: _metadata(cache, space, *place)
            for place in {reference.object for reference in file_references(agent.spec)}
        },
        template_files={place: _metadata(cache, space, *place) for place in volume_places(agent.spec.pod_template)},
        environment={place: _metadata(cache, space, *place) for place in environment_places(agent.spec.pod_template)},
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
        card_keys=stored_ring(cache.get(names.CARD_KEYS, *settings.card_keys_place)),
        gateway_keys=_gateway_keys(cache, settings),
        has_decision=has_undelivered_decision(cache, entry),
        report=report if report and _is_of(report, children) else None,
    )


def _agent(cache: Cache, identity: Identity) -> AgentView | None:
    found = _live(cache, names.AGENT, *identity)
    return None if found is None else agent_of(found)


def _suspended(agent: AgentView) -> AgentView:
    return replace(agent, spec=replace(agent.spec, suspend=True))


def _gateway_keys(cache: Cache, settings: Settings) -> Ring:
    place = settings.gateway_keys_place
    return () if place is None else stored_ring(cache.get(names.GATEWAY_KEYS, *place))


def _is_of(report: AgentReport, children: Iterable[CachedObject]) -> bool:
    """Return whether the report is from a pod that still exists. Reports of earlier pods are outdated."""
    return any(child.kind == "Pod" and child.name == report.pod and not child.deleting for child in children)


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedServer:
    """One McpServer and what it refers to."""

    entry: CachedObject
    server: McpServerView
    users: list[str]
    services: Services
    secrets: Mapping[str, CachedObject | None]
    environment: Mapping[tuple[str, str], CachedObject | None]
    """By (kind, name): metadata of the Secrets and ConfigMaps in the workload's environment."""
    pods: list[CachedObject]

    @property
    def environment_versions(self) -> list[str]:
        return [_version(entry) for _, entry in sorted(self.environment.items())]

    @property
    def answer_depends_on(self) -> list[str]:
        """Return what a probe's result depends on: the serving processes and the credentials.

        A restarted process may offer other tools. A terminating pod still counts, because it may have answered the
        probe; the probe is repeated when that pod is gone.
        """
        serving = sorted(f"{pod.uid} {_restarts(pod)}" for pod in self.pods)
        return [*serving, *(_version(secret) for _, secret in sorted(self.secrets.items()))]


def observe_server(cache: Cache, entry: CachedObject, *, settings: Settings) -> ObservedServer:
    server, space = server_of(entry), entry.namespace
    # A server that was changed to a remote one may still have a pod, which no longer serves requests.
    children = cache.find("child-of", *entry.id) if server.spec.workload is not None else []
    return ObservedServer(
        entry=entry,
        server=server,
        users=[user.name for user in cache.find("uses", *entry.id)],
        services=observe_services(cache, _remote_address(server, settings)),
        secrets=observe_secrets(cache, space, credential_keys(server)),
        environment={place: _metadata(cache, space, *place) for place in environment_sources(server.spec)},
        pods=[child for child in children if child.kind == "Pod"],
    )


def observe_services(cache: Cache, addresses: Iterable[HostAddress]) -> dict[tuple[str, str], ServiceInfo]:
    """Return the Services that the addresses name, if they exist."""
    wanted = {address.service for address in addresses if address.service}
    found = {service: cache.get("Service", *service) for service in wanted}
    return {
        service: ServiceInfo(**entry.projection)
        for service, entry in found.items()
        if entry is not None and not entry.deleting
    }


def _metadata(cache: Cache, namespace: str, kind: str, name: str) -> CachedObject | None:
    return _live(cache, f"{kind}Metadata", namespace, name)


def observe_secrets(cache: Cache, namespace: str, keys: Iterable[SecretKey]) -> dict[str, CachedObject | None]:
    """Return the metadata of the Secrets that hold these keys, by name."""
    return {secret: _live(cache, "SecretMetadata", namespace, secret) for secret, _ in keys}


def _live(cache: Cache, kind: str, namespace: str, name: str) -> CachedObject | None:
    entry = cache.get(kind, namespace, name)
    return None if entry is None or entry.deleting else entry


def _skills(cache: Cache, agent: AgentView) -> dict[str, SkillView | None]:
    found = skill_names(agent.spec, _skill_labels(cache, agent))
    skills = {name: _live(cache, names.SKILL, agent.namespace, name) for name in found}
    return {name: skill_of(entry) if entry else None for name, entry in skills.items()}


def _servers(cache: Cache, agent: AgentView) -> dict[str, McpServerView | None]:
    servers = {use.name: _live(cache, names.MCP_SERVER, agent.namespace, use.name) for use in agent.spec.mcp_servers}
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


def _restarts(pod: CachedObject) -> int:
    return sum(container.get("restartCount", 0) for container in pod.projection.get("containerStatuses", ()))


def _version(entry: CachedObject | None) -> str:
    return f"{entry.uid} {entry.resource_version}" if entry else ""


def _remote_address(server: McpServerView, settings: Settings) -> list[HostAddress]:
    remote = server.spec.remote
    if remote is None:
        return []
    try:
        return [parse_address(remote.url, namespace=server.namespace, settings=settings)]
    except UnusableAddress:
        return []  # the checks report it


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
