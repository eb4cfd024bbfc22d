"""Checks of every object that an Agent refers to, as small pure functions, in the order in which a user would look."""

from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import allows, identity_of
from fleetwright_api.violation import Violation
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.skill_permissions import widened
from fleetwright_operator.build.config.tool_access import allowed_tools, credential_keys
from fleetwright_operator.build.deployment import skill_volume
from fleetwright_operator.build.network.addresses import (
    UnusableAddress,
    has_unseen_endpoints,
)
from fleetwright_operator.build.network.egress import derived_addresses
from fleetwright_operator.build.network.network_additions import is_managed
from fleetwright_operator.build.pod.file_mounts import SECRET
from fleetwright_operator.build.pod.file_references import FileReference, describe_missing_key, file_references
from fleetwright_operator.observe.agent import ObservedAgent
from fleetwright_operator.rollout.skill_probe import SOURCE_PENDING
from fleetwright_operator.rollout.tool_discovery import awaits_pin, drift
from fleetwright_operator.settings import Settings
from fleetwright_operator.validate.address_checks import resolution_problems
from fleetwright_operator.validate.check import Check
from fleetwright_operator.validate.mcp_server_checks import secrets_exist, server_accepted

_BY_HAND = ", or open its addresses under spec.network.egress"


def skills_are_ready(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for name, skill in observed.skills.items():
        if skill is None:
            yield Violation("SkillNotFound", _skill_not_found(observed, name))
            continue
        ready = _ready(skill.status)
        if ready.get("observedGeneration") == skill.generation and ready.get("status") != "True":
            pending = ready["reason"] == SOURCE_PENDING
            message = f"Skill {name!r} is not ready: {ready['message']}"
            yield Violation("SkillPending" if pending else "SkillNotReady", message)
        elif not _is_held(observed, name):
            yield Violation("SkillPending", f"Skill {name!r} is still being read")


def _skill_not_found(observed: ObservedAgent, name: str) -> str:
    missing = f"Skill {name!r} does not exist in namespace {observed.entry.namespace!r}"
    deployment = observed.child("Deployment", observed.entry.name)
    if deployment is None or skill_volume(name) not in deployment.projection["volumes"]:
        return missing
    if deployment.projection["replicas"] == 0:
        return missing  # No revision serves while the agent sleeps or is suspended.
    return f"{missing}; revision {deployment.projection['revision']} keeps serving with the old files"


def _is_held(observed: ObservedAgent, skill: str) -> bool:
    """Return whether the skill's files stay available even if the Skill is deleted. Only then may a pod mount them."""
    view = observed.skills[skill]
    if view is not None and view.accepted_source is not None:
        return True  # its pods fetch the files themselves, even if the Skill is deleted
    snapshot = observed.snapshots.get(skill)
    if snapshot is None:
        return False
    held = any(holder.uid == observed.entry.uid for holder in snapshot.holders)
    return held or observed.mounted_snapshots.get(skill) == snapshot


def servers_are_usable(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    for name, server in observed.servers.items():
        if server is None:
            message = f"McpServer {name!r} does not exist in namespace {observed.entry.namespace!r}"
            yield Violation("McpServerNotFound", message)
            continue
        for violation in server_accepted(server, settings):
            yield Violation("McpServerInvalid", f"McpServer {name!r}: {violation.message}")
        for violation in secrets_exist(credential_keys(server), observed.server_secrets):
            yield Violation(violation.reason, f"McpServer {name!r}: {violation.message}")


def tools_are_as_pinned(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for use in (widened(use, observed.needs) for use in observed.agent.spec.mcp_servers):
        name, server = use.name, observed.servers[use.name]
        if server is None:
            continue
        if awaits_pin(server):
            yield Violation("McpServerPending", f"McpServer {name!r} is pinned, and its tools are not discovered yet")
        if changed := drift(server):
            yield Violation("McpServerToolsChanged", f"McpServer {name!r}: {changed}")
        if allowed_tools(use, server) == []:
            remedy = "allow one of the same tools in both, or remove the server from spec.mcpServers"
            yield Violation("NoToolAllowed", f"the agent and McpServer {name!r} allow no tool in common: {remedy}")


def peers_exist_and_agree(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    me = identity_of(observed.agent)
    for (space, name), peer in observed.peers.items():
        if peer is None:
            hidden = settings.namespaces and space not in settings.namespaces
            why = "is not watched by this installation" if hidden else "has no such agent"
            yield Violation("PeerNotFound", f"Agent {name!r} does not exist: namespace {space!r} {why}")
        elif not allows(peer, me, observed.namespace_labels):
            caller = observed.entry.name if space == me[0] else names.qualified(*me)
            callee = names.qualified(space, name)
            message = f"Agent {callee!r} does not allow {caller!r}; add it to its spec.allowedCallers"
            yield Violation("PeerNotAllowed", message)


def mounted_files_exist(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:  # noqa: ARG001 - a Check
    for reference in file_references(observed.agent.spec):
        yield from _file_exists(reference, observed.referenced[reference.object], observed.entry.namespace)


def _file_exists(reference: FileReference, found: CachedObject | None, namespace: str) -> Iterator[Violation]:
    kind, name, key = reference.kind, reference.name, reference.key
    if found is None:
        message = f"{reference.field} names {kind} {name!r}, which does not exist in namespace {namespace!r}"
        yield Violation("SecretNotFound" if kind == SECRET else "ConfigMapNotFound", message)
        return
    keys = found.projection["keys"]
    if keys is not None and key not in keys:
        message = describe_missing_key(reference.field, kind, name, key, keys)
        yield Violation("SecretKeyNotFound" if kind == SECRET else "ConfigMapKeyNotFound", message)


def addresses_resolve(observed: ObservedAgent, settings: Settings) -> Iterator[Violation]:
    servers = {
        name: server
        for name, server in observed.servers.items()
        if server and not list(server_accepted(server, settings))
    }
    try:
        addresses = list(derived_addresses(observed.agent, servers, observed.needs, observed.services, settings))
    except UnusableAddress as error:
        # The URL may be from a Skill whose own reconcile has not reported the error yet.
        yield Violation("InvalidAddress", str(error))
        return
    if not is_managed(observed.agent.spec):
        return  # the operator derives no rule, so the addresses need not resolve
    for field, address in addresses:
        for violation in resolution_problems(field, address, observed.services, settings):
            unseen = has_unseen_endpoints(address, observed.services, settings)
            yield Violation(violation.reason, violation.message + (_BY_HAND if unseen else ""))


def _ready(status: Mapping[str, Any]) -> Mapping[str, Any]:
    conditions = status.get("conditions", ())
    return next((condition for condition in conditions if condition["type"] == "Ready"), {})


RESOLVED: tuple[Check, ...] = (
    mounted_files_exist,
    skills_are_ready,
    servers_are_usable,
    tools_are_as_pinned,
    peers_exist_and_agree,
    addresses_resolve,
)
