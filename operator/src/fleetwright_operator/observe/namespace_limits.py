"""Reads the LimitRanges and ResourceQuotas of a namespace from the cache."""

from fleetwright_kube.cache import Cache
from fleetwright_operator.build.pod.namespace_limits import NamespaceLimits


def observe_limits(cache: Cache, namespace: str) -> NamespaceLimits:
    ranges = sorted(cache.find("in", "LimitRange", namespace), key=lambda each: each.name)
    quotas = cache.find("in", "ResourceQuota", namespace)
    return NamespaceLimits(
        ranges=tuple(entry for each in ranges for entry in each.projection["ranges"]),
        quota=frozenset(key for each in quotas for key in each.projection["hard"]),
    )
