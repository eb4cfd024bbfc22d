"""Reads the objects of an agent's workspace: its pods, and what the clone of its source needs."""

from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.network.addresses import (
    Destination,
    ServiceInfo,
    UnusableAddress,
    destination,
    parse_address,
)
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.build.workspace import clone, egress_proxy
from fleetwright_operator.build.workspace.deployment import COMPONENT
from fleetwright_operator.build.workspace.egress_hosts import host_addresses
from fleetwright_operator.build.workspace.volume import claim_name
from fleetwright_operator.observe.references import observe_services
from fleetwright_operator.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedWorkspace:
    deployment: CachedObject | None
    claim: CachedObject | None
    pods: tuple[CachedObject, ...]
    services: Services
    """The Services that hosts of `network.egress` name."""
    proxy: CachedObject | None
    """The Deployment of the egress proxy."""
    proxy_pods: tuple[CachedObject, ...]
    proxy_address: str
    """The address of the egress proxy's Service; empty if it has none yet."""
    clones: tuple[CachedObject, ...]
    """The pods that clone the source, and their policies."""
    git_server: Destination | str
    """Where the source is cloned from, or why it cannot be reached; an empty text without a source."""
    secret_problem: str
    """Why the Secret of the source cannot be used; empty if it can, or if there is none."""
    secret_version: tuple[str, ...]


def observe_workspace(
    cache: Cache, entry: CachedObject, agent: AgentView, *, settings: Settings
) -> ObservedWorkspace | None:
    """Return what exists of the workspace; None if the agent has none and nothing of it is left."""
    found = [each for each in cache.find("workspace-of", *entry.id) if _is_controlled(cache, each, entry)]
    if agent.spec.workspace is None and not found:
        return None
    space, claim = entry.namespace, claim_name(entry.name, agent.spec.workspace) if agent.spec.workspace else None
    problem, version = _secret(cache, agent)
    proxy = names.workspace_egress(entry.name)
    proxy_service = cache.get("Service", space, proxy)
    return ObservedWorkspace(
        deployment=cache.get("Deployment", space, names.workspace(entry.name)),
        claim=cache.get("PersistentVolumeClaim", space, claim) if claim else None,
        pods=tuple(each for each in found if each.labels.get(names.COMPONENT) == COMPONENT),
        services=observe_services(cache, [address for _, address in host_addresses(agent, settings)]),
        proxy=cache.get("Deployment", space, proxy),
        proxy_pods=tuple(each for each in found if each.labels.get(names.COMPONENT) == egress_proxy.COMPONENT),
        proxy_address="" if proxy_service is None else proxy_service.projection["cluster_ip"],
        clones=tuple(each for each in found if each.labels.get(names.COMPONENT) == clone.COMPONENT),
        git_server=_git_server(cache, agent, settings),
        secret_problem=problem,
        secret_version=version,
    )


def _is_controlled(cache: Cache, found: CachedObject, agent: CachedObject) -> bool:
    """Return whether the object belongs to the agent: directly, or through a Deployment of its workspace."""
    if found.controller is not None and found.controller.uid == agent.uid:
        return True
    deployments = {
        COMPONENT: names.workspace(agent.name),
        egress_proxy.COMPONENT: names.workspace_egress(agent.name),
    }
    name = deployments.get(found.labels.get(names.COMPONENT, ""))
    deployment = cache.get("Deployment", agent.namespace, name) if name else None
    return deployment is not None and deployment.controller is not None and deployment.controller.uid == agent.uid


def _secret(cache: Cache, agent: AgentView) -> tuple[str, tuple[str, ...]]:
    git = clone.git_source(agent)
    if git is None or git.secret_ref is None:
        return "", ()
    name = git.secret_ref.name
    held = cache.get("SecretMetadata", agent.namespace, name)
    if held is None or held.deleting:
        field = "spec.workspace.source.git.secretRef"
        return f"{field} names Secret {name!r}, which does not exist in its namespace", ()
    return "", (f"{held.uid} {held.resource_version}",)


def _git_server(cache: Cache, agent: AgentView, settings: Settings) -> Destination | str:
    git = clone.git_source(agent)
    if git is None:
        return ""
    try:
        address = parse_address(git.url, namespace=agent.namespace, settings=settings)
    except UnusableAddress as error:
        return f"spec.workspace.source.git.url: {error}"
    service = cache.get("Service", *address.service) if address.service else None
    known = {address.service: ServiceInfo(**service.projection)} if address.service and service else {}
    found = destination(address, known, settings)
    return f"spec.workspace.source.git.url: {found}" if isinstance(found, str) else found
