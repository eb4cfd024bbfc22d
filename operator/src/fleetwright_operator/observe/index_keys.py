"""The index keys under which the cache finds objects: by owner, and by what they refer to. Pure."""

from collections.abc import Iterator

from fleetwright_api import names
from fleetwright_api.approval_sources import account_of, may_request_approval
from fleetwright_api.call_authorization import peers_of, selects_namespaces
from fleetwright_api.spec.agent import AgentView
from fleetwright_kube.cache import IndexKey
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.models import declared_models, destination
from fleetwright_operator.build.config.push import receivers
from fleetwright_operator.build.config.telemetry import collector
from fleetwright_operator.build.config.tool_access import credential_keys
from fleetwright_operator.build.config.workspace import web_addresses
from fleetwright_operator.build.mcp_server import environment_sources
from fleetwright_operator.build.network.addresses import UnusableAddress, parse_address
from fleetwright_operator.build.pod.file_references import file_references
from fleetwright_operator.build.pod.git_access import git_secrets
from fleetwright_operator.build.pod.skill_source import source_secrets
from fleetwright_operator.build.pod.template_sources import environment_places, volume_places
from fleetwright_operator.build.workspace.clone import COMPONENT as CLONE
from fleetwright_operator.build.workspace.clone import GIT_FIELD, git_source
from fleetwright_operator.build.workspace.egress_hosts import host_urls
from fleetwright_operator.kinds.resources import NAMESPACE_RULES, RESOURCES
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
_NAMESPACE_RULES = frozenset(resource.kind for resource in NAMESPACE_RULES)
_LABELS = {
    names.AGENT_LABEL: names.AGENT,
    names.MCP_SERVER_LABEL: names.MCP_SERVER,
    names.SKILL_LABEL: names.SKILL,
    names.WORKSPACE_LABEL: names.AGENT,
    **{names.probed_label(kind): kind for kind in _PARENTS},
}


class IndexKeys:
    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        if entry.kind in _NAMESPACE_RULES:
            yield ("in", entry.kind, entry.namespace)
            return
        if entry.kind not in OWN_KINDS:
            index_key = _index_key_of_child(entry)
            for owner in owners_of(entry):
                yield (index_key, *owner)
            for holder in holders_of(entry):
                yield ("held-by", *holder)
            for config_map in entry.projection.get("mounts", ()):
                yield ("mounted", entry.namespace, config_map)
            if _is_agent_pod(entry):
                yield ("pod-of", entry.namespace, entry.labels[names.AGENT_LABEL])
            if _is_rollout_slot(entry):
                yield ("turn",)
            if _is_probe_pod(entry):
                yield ("probe-pod",)
            if _is_clone_pod(entry):
                yield ("clone-pod",)
            return
        try:
            yield from list(self._own_index_keys(entry))
        except UNREADABLE:
            return  # the object's own reconcile reports the error; other objects must not be affected

    def _own_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        yield ("in", entry.kind, entry.namespace)
        if entry.kind == names.AGENT:
            yield from self._agent_index_keys(entry)
        elif entry.kind == names.SKILL:
            skill = skill_of(entry)
            source = skill.spec.source
            if source.config_map is not None:
                yield ("source", entry.namespace, source.config_map.name)
            for secret in source_secrets(source):
                yield ("mounts", "Secret", entry.namespace, secret.name)
            if source.git is not None:
                yield from self._reaches(entry, source.git.destination)
            for need in skill.accepted_permissions.egress:
                if need.host:
                    yield from self._reaches(entry, f"https://{need.host}")
        elif entry.kind == names.APPROVAL:
            yield ("approval-of", entry.namespace, approval_of(entry).spec.request.agent)
        else:
            yield from self._server_index_keys(entry)

    def _agent_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        agent = agent_of(entry)
        spec, space = agent.spec, entry.namespace
        yield account_key(agent)
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
        if spec.fleet.forwarded_to is not None:
            yield ("replaced-by", space, spec.fleet.forwarded_to.name)
        yield from self._workspace_index_keys(entry)
        for reference in file_references(spec):
            yield ("mounts", reference.kind, space, reference.name)
        for kind, name in [*environment_places(spec.pod_template), *volume_places(spec.pod_template)]:
            yield ("mounts", kind, space, name)
        collectors = [url] if (url := collector(spec)) else []
        models = [destination(model, self._settings.catalog) for _, model in declared_models(spec)]
        for url in [*models, *(url for _, url in receivers(spec)), *collectors]:
            yield from self._reaches(entry, url)

    def _workspace_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        agent = agent_of(entry)
        for url in (*web_addresses(agent), *(url for _, url in host_urls(agent))):
            yield from self._reaches(entry, url)
        if git := git_source(agent):
            yield from self._reaches(entry, git.destination)
            for secret in git_secrets(git, GIT_FIELD):
                yield ("mounts", "Secret", entry.namespace, secret.name)

    def _server_index_keys(self, entry: CachedObject) -> Iterator[IndexKey]:
        server = server_of(entry)
        for secret, _ in credential_keys(server):
            yield ("mounts", "Secret", entry.namespace, secret)
        for kind, name in environment_sources(server.spec):
            yield ("mounts", kind, entry.namespace, name)
        if server.spec.remote is not None:
            yield from self._reaches(entry, server.spec.remote.destination)

    def _reaches(self, entry: CachedObject, url: str) -> Iterator[IndexKey]:
        try:
            address = parse_address(url, namespace=entry.namespace, settings=self._settings)
        except UnusableAddress:
            return
        if address.service:
            yield ("reaches", *address.service)


def account_key(agent: AgentView) -> tuple[str, str]:
    """Return the index key of the agents with this agent's ServiceAccount."""
    return ("account", account_of(agent))


def owners_of(entry: CachedObject) -> list[Key]:
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


def holders_of(entry: CachedObject) -> list[Key]:
    held = entry.holders if entry.is_ours else ()
    return sorted((holder.kind, entry.namespace, holder.name) for holder in held if holder.kind in OWN_KINDS)


def _index_key_of_child(entry: CachedObject) -> str:
    """Return the index of a child. Pods of probes and of a workspace affect their owner, but are not its own pods."""
    if names.WORKSPACE_LABEL in entry.labels:
        return "workspace-of"
    return "probe-of" if _is_probe(entry) else "child-of"


def _is_agent_pod(entry: CachedObject) -> bool:
    return entry.kind == "Pod" and names.AGENT_LABEL in entry.labels


def _is_probe(entry: CachedObject) -> bool:
    return entry.labels.get(names.COMPONENT) == names.PROBE


def _is_probe_pod(entry: CachedObject) -> bool:
    """Return whether this is the pod of a probe of a Skill or an McpServer."""
    probed = entry.controller.kind if entry.controller else ""
    return entry.kind == "Pod" and _is_probe(entry) and probed in {names.SKILL, names.MCP_SERVER}


def _is_clone_pod(entry: CachedObject) -> bool:
    return entry.kind == "Pod" and entry.labels.get(names.COMPONENT) == CLONE


def _is_rollout_slot(entry: CachedObject) -> bool:
    """Return whether the object is the NetworkPolicy of an Agent's probe, which represents a rollout slot."""
    return entry.kind == "NetworkPolicy" and _is_probe(entry) and names.probed_label(names.AGENT) in entry.labels
