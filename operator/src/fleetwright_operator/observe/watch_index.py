"""The index keys of the cache, and which objects to enqueue after a change. Pure."""

from collections.abc import Iterator
from typing import Any

from fleetwright_api import names
from fleetwright_api.approval_sources import may_request_approval
from fleetwright_api.call_authorization import peers_of, selects_namespaces
from fleetwright_api.fleet.hierarchy import MAX_DEPTH
from fleetwright_api.skill_selection import selects
from fleetwright_kube.cache import Cache, Change, IndexKey
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.models import declared_models, destination
from fleetwright_operator.build.config.push import receivers
from fleetwright_operator.build.config.telemetry import collector
from fleetwright_operator.build.config.tool_access import credential_keys
from fleetwright_operator.build.manifest import Owner, owner_of
from fleetwright_operator.build.mcp_server import environment_sources
from fleetwright_operator.build.network.addresses import UnusableAddress, parse_address
from fleetwright_operator.build.pod.file_references import file_references
from fleetwright_operator.build.pod.skill_source import source_secret
from fleetwright_operator.build.pod.template_sources import environment_places, volume_places
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.kinds.resources import RESOURCES
from fleetwright_operator.kinds.views import agent_of, approval_of, server_of, skill_of
from fleetwright_operator.settings import Settings

Key = tuple[str, str, str]
"""(kind, namespace, name) of an Agent, a Skill, an McpServer or an Approval."""

UNREADABLE = (KeyError, TypeError, AttributeError, ValueError)
"""Errors from reading a value of a spec, such as a temperature that is not a number.

An older CRD may accept such a value.
"""
_PARENTS = (names.AGENT, names.SKILL, names.MCP_SERVER)
"""The kinds with children."""
OWN_KINDS = (*_PARENTS, names.APPROVAL)
_LABELS = {
    names.AGENT_LABEL: names.AGENT,
    names.MCP_SERVER_LABEL: names.MCP_SERVER,
    names.SKILL_LABEL: names.SKILL,
    **{names.probed_label(kind): kind for kind in _PARENTS},
}


class WatchIndex:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        if entry.kind not in OWN_KINDS:
            # A probe pod affects its owner, but is not one of the owner's regular pods and policies.
            index_key = "probe-of" if _is_probe(entry) else "child-of"
            for owner in _owners(entry):
                yield (index_key, *owner)
            for holder in _holders(entry):
                yield ("held-by", *holder)
            for config_map in entry.projection.get("mounts", ()):
                yield ("mounted", entry.namespace, config_map)
            if _is_agent_pod(entry):
                yield ("pod-of", entry.namespace, entry.labels[names.AGENT_LABEL])
            if _is_rollout_slot(entry):
                yield ("turn",)
            return
        try:
            yield from list(self._own_index_keys(entry))
        except UNREADABLE:
            return  # the object's own reconcile reports the error; other objects must not be affected

    def _own_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        if entry.kind == names.AGENT:
            yield from self._agent_index_keys(entry)
        elif entry.kind == names.SKILL:
            yield ("in", names.SKILL, entry.namespace)
            skill = skill_of(entry)
            source = skill.spec.source
            if source.config_map is not None:
                yield ("source", entry.namespace, source.config_map.name)
            if secret := source_secret(source):
                yield ("mounts", "Secret", entry.namespace, secret[1])
            if source.git is not None:
                yield from self._reaches(entry, source.git.url)
            for need in skill.accepted_permissions.egress:
                if need.host:
                    yield from self._reaches(entry, f"https://{need.host}")
        elif entry.kind == names.APPROVAL:
            yield ("approval-of", entry.namespace, approval_of(entry).spec.request.agent)
        else:
            yield from self._server_index_keys(entry)

    def keys_to_enqueue(self, change: Change, cache: Cache) -> set[Key]:
        """Return the keys of all objects whose result may have changed."""
        entry = change.entry
        space, name = entry.namespace, entry.name
        match entry.kind:
            case names.AGENT:
                return self._by_agent(change, cache)
            case names.SKILL:
                return {entry.id, *_keys(cache, "uses", *entry.id), *_keys(cache, "selects-skills", space)}
            case names.MCP_SERVER:
                return {entry.id, *_keys(cache, "uses", *entry.id)}
            case names.APPROVAL:
                return {entry.id, *_deciding(change)}
            case "NamespaceMetadata":
                return _by_namespace(change, cache)
            case names.CARD_KEYS:
                # Without keys nothing can be signed. Agents are enqueued when there are keys again.
                signs = stored_ring(change.after)
                return {entry.id, *(agent.id for agent in cache.all(names.AGENT) if signs)}
            case names.GATEWAY_KEYS:
                return {entry.id, *(agent.id for agent in cache.all(names.AGENT))}
            case names.KEY_SET:
                return {(names.CARD_KEYS, space, name)}
            case "SecretMetadata":
                return _with_users(cache, _keys(cache, "mounts", "Secret", space, name))
            case "ConfigMapMetadata":
                mounting = _keys(cache, "mounts", "ConfigMap", space, name)
                return _keys(cache, "source", space, name) | _with_users(cache, mounting)
            case "Service":
                namesakes = {(names.AGENT, space, name), (names.MCP_SERVER, space, name.removesuffix("-mcp"))}
                return set(_owners(entry)) | self._by_service(cache, space, name) | namesakes
            case "Secret":
                return set(_owners(entry)) | _token_holders(change) | _waiting_callers(change, cache)
            case "ConfigMap":
                owners = set(_owners(entry))
                users = (_keys(cache, "uses", *owner) for owner in owners if owner[0] == names.SKILL)
                return owners.union(_holders(entry), *users)
            case "Deployment":
                return _sides_owners(change) | _skills_of(change, cache)
            case _:
                return _sides_owners(change)

    def _agent_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        agent = agent_of(entry)
        spec, space = agent.spec, entry.namespace
        if may_request_approval(spec):
            yield ("asks",)
        for skill in spec.skills:
            yield ("uses", names.SKILL, space, skill.name)
        for server in spec.mcp_servers:
            yield ("uses", names.MCP_SERVER, space, server.name)
        if spec.skill_selector is not None:
            yield ("selects-skills", space)
        if selects_namespaces(agent):
            yield ("selects-namespaces",)
        for peer in peers_of(agent):
            yield ("calls", *peer)
        if spec.fleet.parent is not None:
            yield ("child-agent", space, spec.fleet.parent.name)
        for reference in file_references(spec):
            yield ("mounts", reference.kind, space, reference.name)
        for kind, name in [*environment_places(spec.pod_template), *volume_places(spec.pod_template)]:
            yield ("mounts", kind, space, name)
        collectors = [url] if (url := collector(spec)) else []
        models = [destination(model, self._settings.catalog) for _, model in declared_models(spec)]
        for url in [*models, *(url for _, url in receivers(spec)), *collectors]:
            yield from self._reaches(entry, url)

    def _server_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        server = server_of(entry)
        for secret, _ in credential_keys(server):
            yield ("mounts", "Secret", entry.namespace, secret)
        for kind, name in environment_sources(server.spec):
            yield ("mounts", kind, entry.namespace, name)
        if server.spec.remote is not None:
            yield from self._reaches(entry, server.spec.remote.url)

    def _reaches(self, entry: CachedObject, url: str) -> Iterator[IndexKey]:
        try:
            address = parse_address(url, namespace=entry.namespace, settings=self._settings)
        except UnusableAddress:
            return
        if address.service:
            yield ("reaches", *address.service)

    def _by_agent(self, change: Change, cache: Cache) -> set[Key]:
        entry = change.entry
        if not _respecified(change):
            return set()  # only the status changed, and the operator wrote that
        sides = [side for side in (change.before, change.after) if side]
        neighbours = {
            index_key[-3:] if index_key[0] == "uses" else (names.AGENT, *index_key[1:])
            for side in sides
            for index_key in self.index_keys(side)
            if index_key[0] in {"uses", "calls"}
        }
        callers = _keys(cache, "calls", entry.namespace, entry.name)
        selected = _selectable(cache, sides)
        approvals = _keys(cache, "approval-of", entry.namespace, entry.name)
        named = {(str(kind), str(space), str(name)) for kind, space, name in neighbours}
        descendants = _descendants(cache, entry.namespace, entry.name)
        return {entry.id, *callers, *selected, *named, *approvals, *descendants}

    def _by_service(self, cache: Cache, space: str, name: str) -> set[Key]:
        return _with_users(cache, _keys(cache, "reaches", space, name))


def users_of_skill(cache: Cache, skill: CachedObject) -> list[CachedObject]:
    """Return the agents that name the skill, and the agents whose selector matches it."""
    named = cache.find("uses", *skill.id)
    found = [
        agent for agent in cache.find("selects-skills", skill.namespace) if selects(agent_of(agent).spec, skill.labels)
    ]
    return list({agent.id: agent for agent in [*named, *found]}.values())


def holders_of_snapshot(cache: Cache, skill: CachedObject, snapshot: str) -> list[Owner]:
    """Return a snapshot's additional owners: the Skill's users, and agents whose pods still mount it.

    Users become owners before they mount the snapshot.
    """
    deployments = cache.find("mounted", skill.namespace, snapshot)
    mounting = [deployment.controller for deployment in deployments if deployment.controller]
    owners = [cache.get(owner.kind, skill.namespace, owner.name) for owner in mounting]
    alive = [agent for agent, owner in zip(owners, mounting, strict=True) if agent and agent.uid == owner.uid]
    return list({agent.uid: owner_of(agent_of(agent)) for agent in [*users_of_skill(cache, skill), *alive]}.values())


def _selectable(cache: Cache, agents: list[CachedObject]) -> set[Key]:
    """Return the Skills whose number of users may change when an agent with a selector changes."""
    spaces = {agent.namespace for agent in agents if agent_of(agent).spec.skill_selector is not None}
    return {skill.id for space in spaces for skill in cache.find("in", names.SKILL, space)}


def _descendants(cache: Cache, space: str, name: str) -> set[Key]:
    """Return the agents below this one. They depend on its existence, its own parent and its suspension."""
    found: set[Key] = set()
    level = {name}
    for _ in range(MAX_DEPTH):
        level = {key[2] for parent in level for key in _keys(cache, "child-agent", space, parent) if key not in found}
        if not level:
            break
        found |= {(names.AGENT, space, child) for child in level}
    return found


def _by_namespace(change: Change, cache: Cache) -> set[Key]:
    """Return the agents that allow callers by namespace labels, and the agents that name such agents as peers."""
    before, after = (side.labels if side else {} for side in (change.before, change.after))
    if before == after:
        return set()
    inviting = cache.find("selects-namespaces")
    calling = (_keys(cache, "calls", agent.namespace, agent.name) for agent in inviting)
    return {agent.id for agent in inviting}.union(*calling)


def _deciding(change: Change) -> set[Key]:
    """Return the agent whose Approval got a decision or delivered one, because the agent must run meanwhile."""
    sides = [approval_of(side) if side else None for side in (change.before, change.after)]
    undelivered = {side is not None and side.is_undelivered for side in sides}
    agents = {side.spec.request.agent for side in sides if side is not None}
    return {(names.AGENT, change.entry.namespace, agent) for agent in agents} if len(undelivered) > 1 else set()


def _owners(entry: CachedObject) -> list[Key]:
    """Return the owners of a child: by label, and by its controller in case the labels were edited.

    A metadata-only cache entry of an object does not count as a child, because pruning that entry would delete the
    object itself.
    """
    if not entry.is_ours or RESOURCES[entry.kind].metadata_only:
        return []
    owners = [(kind, entry.namespace, entry.labels[key]) for key, kind in _LABELS.items() if key in entry.labels]
    if entry.controller and entry.controller.kind in OWN_KINDS:
        owners.append((entry.controller.kind, entry.namespace, entry.controller.name))
    return sorted(set(owners))


def _sides_owners(change: Change) -> set[Key]:
    return {owner for side in (change.before, change.after) if side for owner in _owners(side)}


def _holders(entry: CachedObject) -> list[Key]:
    held = entry.holders if entry.is_ours else ()
    return sorted((holder.kind, entry.namespace, holder.name) for holder in held if holder.kind in OWN_KINDS)


def _skills_of(change: Change, cache: Cache) -> set[Key]:
    """Return the Skills whose snapshots a Deployment has started or stopped mounting.

    The owner references of these snapshots change.
    """
    before, after = (side.projection["mounts"] if side else frozenset() for side in (change.before, change.after))
    found = [cache.get("ConfigMap", change.entry.namespace, name) for name in before ^ after]
    return {owner for entry in found if entry for owner in _owners(entry) if owner[0] == names.SKILL}


def _with_users(cache: Cache, found: set[Key]) -> set[Key]:
    """Add the agents that use an McpServer or a Skill among the keys."""
    used = found.union(*(_keys(cache, "uses", *key) for key in found if key[0] == names.MCP_SERVER))
    skills = [cache.get(*key) for key in found if key[0] == names.SKILL]
    return used.union(*({user.id for user in users_of_skill(cache, skill)} for skill in skills if skill))


def _keys(cache: Cache, *index_key: str) -> set[Key]:
    return {entry.id for entry in cache.find(*index_key)}


def _token_holders(change: Change) -> set[Key]:
    """Return the agents for which a caller's auth Secret has, or had, a token.

    The `callers.json` of these agents changes.
    """
    sides: list[dict[str, Any]] = [side.projection["data"] for side in (change.before, change.after) if side]
    peers = [names.peer_of_token_key(key) for data in sides for key in data]
    return {(names.AGENT, *peer) for peer in peers if peer}


def _waiting_callers(change: Change, cache: Cache) -> set[Key]:
    """Return the agents whose next token comes into use as soon as this agent accepts it."""
    agent = change.entry.labels.get(names.AGENT_LABEL, "")
    if change.entry.name != names.agent_auth(agent):
        return set()
    waiting = names.next_token_key(change.entry.namespace, agent)
    callers = cache.find("calls", change.entry.namespace, agent)
    secrets = {caller.id: cache.get("Secret", caller.namespace, names.agent_auth(caller.name)) for caller in callers}
    return {caller for caller, secret in secrets.items() if secret and waiting in secret.projection["data"]}


def _respecified(change: Change) -> bool:
    before, after = change.before, change.after
    if before is None or after is None:
        return True
    return _identity(before) != _identity(after)


def _identity(entry: CachedObject) -> tuple[object, ...]:
    """Return the parts of an object of Fleetwright's kinds that decide a reconcile: the spec, and annotations that
    users set.
    """
    asked = (names.AUDIT_ACKNOWLEDGED_ANNOTATION, names.WAKE_ANNOTATION)
    return entry.uid, entry.generation, entry.deleting, *(entry.annotations.get(each) for each in asked)


def _is_probe(entry: CachedObject) -> bool:
    return entry.labels.get(names.COMPONENT) == names.PROBE


def _is_agent_pod(entry: CachedObject) -> bool:
    return entry.kind == "Pod" and names.AGENT_LABEL in entry.labels


def _is_rollout_slot(entry: CachedObject) -> bool:
    """Return whether the object is the NetworkPolicy of an Agent's probe, which represents a rollout slot."""
    return entry.kind == "NetworkPolicy" and _is_probe(entry) and names.probed_label(names.AGENT) in entry.labels
