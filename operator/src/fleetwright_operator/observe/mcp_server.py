"""Reads everything that an McpServer's reconcile needs, from the cache."""

from collections.abc import Mapping
from dataclasses import dataclass

from fleetwright_api.spec.mcp_server import McpServerView
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.tool_access import credential_keys
from fleetwright_operator.build.mcp_server import environment_sources
from fleetwright_operator.build.network.addresses import HostAddress, UnusableAddress, parse_address
from fleetwright_operator.build.network.egress import Services
from fleetwright_operator.kinds.views import server_of
from fleetwright_operator.observe.references import live_metadata, observe_secrets, observe_services, version_of
from fleetwright_operator.settings import Settings


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
        return [version_of(entry) for _, entry in sorted(self.environment.items())]

    @property
    def answer_depends_on(self) -> list[str]:
        """Return what a probe's result depends on: the serving processes and the credentials.

        A restarted process may offer other tools. A terminating pod still counts, because it may have answered the
        probe; the probe is repeated when that pod is gone.
        """
        serving = sorted(f"{pod.uid} {_restarts(pod)}" for pod in self.pods)
        return [*serving, *(version_of(secret) for _, secret in sorted(self.secrets.items()))]


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
        environment=live_metadata(cache, space, environment_sources(server.spec)),
        pods=[child for child in children if child.kind == "Pod"],
    )


def _restarts(pod: CachedObject) -> int:
    return sum(container.get("restartCount", 0) for container in pod.projection.get("containerStatuses", ()))


def _remote_address(server: McpServerView, settings: Settings) -> list[HostAddress]:
    remote = server.spec.remote
    if remote is None:
        return []
    try:
        return [parse_address(remote.destination, namespace=server.namespace, settings=settings)]
    except UnusableAddress:
        return []  # the checks report it
