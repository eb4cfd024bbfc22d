"""Reads the objects of an agent's workspace: its pods, and what the clone of its source needs."""

from dataclasses import dataclass

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView
from fleetwright_api.violation import Violation
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.network.addresses import (
    Destination,
    UnusableAddress,
    destination,
    parse_address,
)
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.build.pod.git_access import git_secrets, git_urls
from fleetwright_operator.build.workspace import clone, egress_proxy
from fleetwright_operator.build.workspace.deployment import COMPONENT
from fleetwright_operator.build.workspace.egress_hosts import host_addresses
from fleetwright_operator.build.workspace.volume import claim_name
from fleetwright_operator.observe.references import observe_services, observe_source_secrets
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
    git_secrets: Violation | tuple[str, ...]
    """The versions of the Secrets of the source, or why one of them cannot be used."""


def observe_workspace(
    cache: Cache, entry: CachedObject, agent: AgentView, *, settings: Settings
) -> ObservedWorkspace | None:
    """Return what exists of the workspace; None if the agent has none and nothing of it is left."""
    found = [each for each in cache.find("workspace-of", *entry.id) if _is_controlled(cache, each, entry)]
    if agent.spec.workspace is None and not found:
        return None
    space, claim = entry.namespace, claim_name(entry.name, agent.spec.workspace) if agent.spec.workspace else None
    git = clone.git_source(agent)
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
        git_secrets=observe_source_secrets(cache, space, git_secrets(git, clone.GIT_FIELD) if git else ()),
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


def _git_server(cache: Cache, agent: AgentView, settings: Settings) -> Destination | str:
    git = clone.git_source(agent)
    if git is None:
        return ""
    for name, url in git_urls(git):
        try:
            parse_address(url, namespace=agent.namespace, settings=settings)
        except UnusableAddress as error:
            return f"{clone.GIT_FIELD}.{name}: {error}"
    name, url = git.destination_field, git.destination
    address = parse_address(url, namespace=agent.namespace, settings=settings)
    found = destination(address, observe_services(cache, [address]), settings)
    return f"{clone.GIT_FIELD}.{name}: {found}" if isinstance(found, str) else found
