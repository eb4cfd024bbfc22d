"""Reads the objects to which an Agent or an McpServer refers. None means that an object is missing or being deleted."""

from collections.abc import Iterable

from fleetwright_api.violation import Violation
from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import CachedObject
from fleetwright_operator.build.config.tool_access import SecretKey
from fleetwright_operator.build.network.addresses import HostAddress, ServiceInfo
from fleetwright_operator.build.pod.file_mounts import SECRET
from fleetwright_operator.build.pod.file_references import describe_missing_key
from fleetwright_operator.build.pod.git_access import SourceSecret


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


def observe_source_secrets(
    cache: Cache, namespace: str, secrets: Iterable[SourceSecret]
) -> Violation | tuple[str, ...]:
    """Return the versions of the Secrets, or what is wrong with the first one that cannot be used."""
    versions = []
    for secret in secrets:
        found = live(cache, "SecretMetadata", namespace, secret.name)
        if found is None:
            message = f"{secret.field} names Secret {secret.name!r}, which does not exist in its namespace"
            return Violation("SecretNotFound", message)
        keys = found.projection["keys"]
        if secret.key is not None and keys is not None and secret.key not in keys:
            message = describe_missing_key(secret.field, SECRET, secret.name, secret.key, keys)
            return Violation("SecretKeyNotFound", message)
        versions.append(version_of(found))
    return tuple(versions)


def live(cache: Cache, kind: str, namespace: str, name: str) -> CachedObject | None:
    entry = cache.get(kind, namespace, name)
    return None if entry is None or entry.deleting else entry


def version_of(entry: CachedObject | None) -> str:
    return f"{entry.uid} {entry.resource_version}" if entry else ""
