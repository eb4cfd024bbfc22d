"""The index keys of the cache, and which objects to enqueue after a change. Pure."""

from typing import Any

from fleetwright_api import names
from fleetwright_api.fleet.hierarchy import MAX_DEPTH
from fleetwright_api.skill_selection import selects
from fleetwright_kube.cache import Cache, Change
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.manifest import Owner, owner_of
from fleetwright_operator.credentials.stored_credentials import stored_ring
from fleetwright_operator.kinds.views import agent_of, approval_of
from fleetwright_operator.observe.index_keys import IndexKeys, Key, holders_of, owners_of
from fleetwright_operator.observe.successors import MAX_STEPS
from fleetwright_operator.settings import Settings


class WatchIndex:
    def __init__(self, settings: Settings) -> None:
        self.index_keys = IndexKeys(settings).index_keys
        """Returns the index keys of an object, for the cache."""

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
                return {entry.id, *_agent_of_approval(change)}
            case "LimitRange" | "ResourceQuota":
                return _by_namespace_rules(change, cache)
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
                return set(owners_of(entry)) | self._by_service(cache, space, name) | namesakes
            case "Secret":
                return set(owners_of(entry)) | _token_holders(change) | _waiting_callers(change, cache)
            case "ConfigMap":
                owners = set(owners_of(entry))
                users = (_keys(cache, "uses", *owner) for owner in owners if owner[0] == names.SKILL)
                return owners.union(holders_of(entry), *users)
            case "Deployment":
                return _sides_owners(change) | _skills_of(change, cache)
            case _:
                return _sides_owners(change)

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
        descendants = _chain(cache, "child-agent", entry.namespace, entry.name, most=MAX_DEPTH)
        replaced = _chain(cache, "replaced-by", entry.namespace, entry.name, most=MAX_STEPS)
        accounts = {index_key for side in sides for index_key in self.index_keys(side) if index_key[0] == "account"}
        sharers = {each.id for index_key in accounts for each in cache.find(*index_key)}
        return {entry.id, *sharers, *callers, *selected, *named, *approvals, *descendants, *replaced}

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


def _chain(cache: Cache, index: str, space: str, name: str, *, most: int) -> set[Key]:
    """Return the agents that refer to this one, directly or through at most so many others.

    Agents below this one depend on its existence, its own parent and its suspension. Agents that this one has replaced
    depend on its existence and its own successor.
    """
    found: set[Key] = set()
    level = {name}
    for _ in range(most):
        level = {key[2] for each in level for key in _keys(cache, index, space, each) if key not in found}
        if not level:
            break
        found |= {(names.AGENT, space, each) for each in level}
    return found


def _by_namespace_rules(change: Change, cache: Cache) -> set[Key]:
    """Return the owners of helper pods in the namespace of a LimitRange or a ResourceQuota.

    The status of a quota changes with every pod, and changes no resources.
    """
    before, after = (side.projection if side else {} for side in (change.before, change.after))
    if before == after:
        return set()
    kinds = (names.AGENT, names.SKILL, names.MCP_SERVER)
    return {entry.id for kind in kinds for entry in cache.find("in", kind, change.entry.namespace)}


def _by_namespace(change: Change, cache: Cache) -> set[Key]:
    """Return the agents that allow callers by namespace labels, and the agents that name such agents as peers."""
    before, after = (side.labels if side else {} for side in (change.before, change.after))
    if before == after:
        return set()
    inviting = cache.find("selects-namespaces")
    calling = (_keys(cache, "calls", agent.namespace, agent.name) for agent in inviting)
    return {agent.id for agent in inviting}.union(*calling)


def _agent_of_approval(change: Change) -> set[Key]:
    """Return the agent whose Approval was created, got a decision or delivered one.

    An agent does not sleep before its questions have Approvals, nor between a decision and its delivery.
    """
    sides = [approval_of(side) if side else None for side in (change.before, change.after)]
    undelivered = {side is not None and side.is_undelivered for side in sides}
    agents = {side.spec.request.agent for side in sides if side is not None}
    concerned = change.before is None or len(undelivered) > 1
    return {(names.AGENT, change.entry.namespace, agent) for agent in agents} if concerned else set()


def _sides_owners(change: Change) -> set[Key]:
    return {owner for side in (change.before, change.after) if side for owner in owners_of(side)}


def _skills_of(change: Change, cache: Cache) -> set[Key]:
    """Return the Skills whose snapshots a Deployment has started or stopped mounting.

    The owner references of these snapshots change.
    """
    before, after = (side.projection["mounts"] if side else frozenset() for side in (change.before, change.after))
    found = [cache.get("ConfigMap", change.entry.namespace, name) for name in before ^ after]
    return {owner for entry in found if entry for owner in owners_of(entry) if owner[0] == names.SKILL}


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
    asked = (names.AUDIT_ACKNOWLEDGED_ANNOTATION, names.INSTALLATION_ANNOTATION, names.WAKE_ANNOTATION)
    return entry.uid, entry.generation, entry.deleting, *(entry.annotations.get(each) for each in asked)
