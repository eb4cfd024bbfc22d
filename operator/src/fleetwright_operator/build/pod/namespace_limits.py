"""Fits the resources of helper pods to the LimitRanges and quotas of their namespace. Pure.

The admission plugins LimitRanger and ResourceQuota refuse a pod whose requests or limits lie outside of the namespace's
rules (https://kubernetes.io/docs/concepts/policy/limit-range/). The resources of helper pods are ours, so no user could
correct them. A value changes only if the pod would be refused otherwise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api.quantity import parse_quantity
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE as STORAGE

NAMES: Final = ("cpu", "memory", STORAGE)
_CPU_LIMIT: Final = "500m"
"""The CPU limit of a container in a namespace that requires one."""
_MI: Final = 2**20
Resources = Mapping[str, Any]
Range = Mapping[str, Any]
"""An entry of `spec.limits` of a LimitRange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NamespaceLimits:
    """The rules of one namespace."""

    ranges: tuple[Range, ...] = ()
    quota: frozenset[str] = frozenset()
    """The keys of `spec.hard` of all ResourceQuotas, such as `limits.cpu`. A pod must set each of them."""

    def list_values(self, kind: str, rule: str, name: str) -> list[float]:
        """Return the values of a rule (`min`, `max`, `maxLimitRequestRatio`, `default`) for Containers or Pods."""
        held = (each.get(rule, {}) for each in self.ranges if each.get("type") == kind)
        return [parse_quantity(values[name]) for values in held if name in values]

    def requires_limit(self, name: str) -> bool:
        rules = [(kind, rule) for kind in ("Container", "Pod") for rule in ("max", "maxLimitRequestRatio")]
        return f"limits.{name}" in self.quota or any(self.list_values(kind, rule, name) for kind, rule in rules)


NO_LIMITS: Final = NamespaceLimits()


def fit_pod(pod: Mapping[str, Any], fitted: Sequence[str], limits: NamespaceLimits) -> dict[str, Any]:
    """Return a pod whose containers with the names in `fitted` are admissible. The other containers stay as they are.

    Rules for whole pods are met by the last of these containers.
    """
    containers = [
        {**each, "resources": _fit_container(each.get("resources", {}), limits)} if each["name"] in fitted else each
        for each in pod["containers"]
    ]
    own = [place for place, each in enumerate(containers) if each["name"] in fitted]
    if own:
        last = own[-1]
        beside = [
            *(each for place, each in enumerate(containers) if place != last),
            *(each for each in pod.get("initContainers", ()) if each.get("restartPolicy") == "Always"),
        ]
        others = [each.get("resources", {}) for each in beside]
        containers[last] = {**containers[last], "resources": _fit_sum(containers[last]["resources"], others, limits)}
    return {**pod, "containers": containers}


def _fit_container(resources: Resources, limits: NamespaceLimits) -> dict[str, Any]:
    requests, caps = dict(resources.get("requests", {})), dict(resources.get("limits", {}))
    for name in NAMES:
        defaults = limits.list_values("Container", "default", name)
        limit = _parsed(caps, name, defaults[0] if defaults else None)
        if limit is None and limits.requires_limit(name):
            limit = parse_quantity(_CPU_LIMIT) if name == "cpu" else _parsed(requests, name, None)
        _store(
            (requests, caps),
            name,
            _Bounds(
                request=_parsed(requests, name, None),
                limit=limit,
                least=max(limits.list_values("Container", "min", name), default=0.0),
                most=min(limits.list_values("Container", "max", name), default=math.inf),
                ratio=min(limits.list_values("Container", "maxLimitRequestRatio", name), default=math.inf),
            ),
            is_defaulted=bool(defaults),
        )
    return _resources(resources, requests, caps)


def _fit_sum(resources: Resources, others: Sequence[Resources], limits: NamespaceLimits) -> dict[str, Any]:
    """Return the resources with which this container and the `others` together meet the rules for whole pods."""
    requests, caps = dict(resources.get("requests", {})), dict(resources.get("limits", {}))
    for name in NAMES:
        requested = sum(_parsed(each.get("requests", {}), name, None) or 0.0 for each in others)
        limited = sum(_parsed(each.get("limits", {}), name, None) or 0.0 for each in others)
        ratio = min(limits.list_values("Pod", "maxLimitRequestRatio", name), default=math.inf)
        least = max(limits.list_values("Pod", "min", name), default=0.0) - requested
        most = min(limits.list_values("Pod", "max", name), default=math.inf) - limited
        if most <= 0:
            continue  # The others alone exceed the rule.
        limit = _parsed(caps, name, None)
        if limit is not None and ratio < math.inf:
            least = max(least, (min(limit, most) + limited) / ratio - requested)
        bounds = _Bounds(request=_parsed(requests, name, None), limit=limit, least=least, most=most, ratio=math.inf)
        _store((requests, caps), name, bounds, is_defaulted=False)
    return _resources(resources, requests, caps)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Bounds:
    """The wanted request and limit of one resource, and the rules that they must meet."""

    request: float | None
    limit: float | None
    least: float
    most: float
    ratio: float

    def fit_values(self) -> tuple[float | None, float | None]:
        """Return the request and the limit. The limit is lowered and the request is raised, as far as needed."""
        limit = None if self.limit is None else max(min(self.limit, self.most), self.least)
        request = self.request
        if request is None and self.least <= 0 and self.ratio == math.inf:
            return None, limit
        request = max(request or 0.0, self.least, 0.0 if limit is None else limit / self.ratio)
        return request if limit is None else min(request, limit), limit


def _store(parts: tuple[dict[str, Any], dict[str, Any]], name: str, bounds: _Bounds, *, is_defaulted: bool) -> None:
    """Store the values that must change. Values that are admissible stay as they are written.

    Args: `is_defaulted` is true if the API server sets the limit of a container that has none.
    """
    requests, caps = parts
    request, limit = bounds.fit_values()
    if limit is not None and (limit != bounds.limit or (name not in caps and not is_defaulted)):
        caps[name] = _format(name, limit)
    if request is not None and request != bounds.request:
        text = _format(name, request)
        # A request that was rounded up must not exceed the limit.
        requests[name] = caps[name] if name in caps and parse_quantity(text) > parse_quantity(caps[name]) else text


def _parsed(values: Mapping[str, Any], name: str, default: float | None) -> float | None:
    return parse_quantity(values[name]) if name in values else default


def _format(name: str, value: float) -> str:
    """Return a quantity in thousandths of a CPU, in Mi, or in bytes."""
    if name == "cpu":
        return f"{math.ceil(round(value * 1000, 6))}m"
    size = math.ceil(round(value, 3))
    return str(size) if size % _MI else f"{size // _MI}Mi"


def _resources(resources: Resources, requests: Resources, caps: Resources) -> dict[str, Any]:
    parts = {"requests": requests, "limits": caps}
    rest = {key: value for key, value in resources.items() if key not in parts}
    return {**rest, **{part: dict(values) for part, values in parts.items() if values}}
