"""Reads the objects to which an Agent or an McpServer refers. None means that an object is missing or being deleted."""

from collections.abc import Iterable

from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.tool_access import SecretKey
from fleetwright_operator.build.network.addresses import HostAddress, ServiceInfo


def observe_services(cache: Cache, addresses: Iterable[HostAddress]) -> dict[tuple[str, str], ServiceInfo]:
    """Return the Services that the addresses name, if they exist."""
    wanted = {address.service for address in addresses if address.service}
    found = {service: cache.get("Service", *service) for service in wanted}
    return {
        service: ServiceInfo(**entry.projection)
        for service, entry in found.items()
        if entry is not None and not entry.deleting
    }


def live_metadata(
    cache: Cache, namespace: str, places: Iterable[tuple[str, str]]
) -> dict[tuple[str, str], CachedObject | None]:
    """Return the metadata of the Secrets and ConfigMaps at these places, which are pairs of kind and name."""
    return {(kind, name): live(cache, f"{kind}Metadata", namespace, name) for kind, name in places}


def observe_secrets(cache: Cache, namespace: str, keys: Iterable[SecretKey]) -> dict[str, CachedObject | None]:
    """Return the metadata of the Secrets that hold these keys, by name."""
    return {secret: live(cache, "SecretMetadata", namespace, secret) for secret, _ in keys}


def live(cache: Cache, kind: str, namespace: str, name: str) -> CachedObject | None:
    entry = cache.get(kind, namespace, name)
    return None if entry is None or entry.deleting else entry


def version_of(entry: CachedObject | None) -> str:
    return f"{entry.uid} {entry.resource_version}" if entry else ""
