"""The ephemeral storage of a pod: how much of the node's disk its containers and `emptyDir` volumes may use. Pure.

The kubelet evicts a pod whose writable layers, logs and `emptyDir` volumes together exceed the sum of its containers'
limits. A container without a limit adds nothing to that sum, so every container gets a limit.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fleetwright_api.quantity import parse_quantity

RESOURCE = "ephemeral-storage"
_REQUEST, _LIMIT = "64Mi", "1Gi"
"""Used if neither the object nor the installation sets a value."""
_UNITS = ("Ki", "Mi", "Gi", "Ti")
_MOST = 2.0**60
Resources = Mapping[str, Any]


def limited(own: Resources | None, default: Resources, *, room: Iterable[str] = ()) -> dict[str, Any]:
    """Return a container's own resources, or the default ones, with a request and a limit for ephemeral storage.

    Values of the container take precedence over the default. `room` are the sizes of the pod's `emptyDir` volumes other
    than `/tmp`. They are added to the limit.
    """
    whole = {part: dict(values) for part, values in (own or default).items()}
    requests, limits = whole.get("requests", {}), whole.get("limits", {})
    request, limit = requests.get(RESOURCE), limits.get(RESOURCE)
    if limit is None:
        limit = _larger(_named(default, "limits", _LIMIT), request)
    if request is None:
        request = _smaller(_named(default, "requests", _REQUEST), limit)
    total = _sum([str(limit), *room])
    return {**whole, "requests": {**requests, RESOURCE: request}, "limits": {**limits, RESOURCE: total}}


def limit_patched(
    pod: dict[str, Any], template: Mapping[str, Any], patch: Mapping[str, Any], default: Resources
) -> None:
    """Give every container of a patched pod a limit, and resize `/tmp` to the main container's limit.

    `pod` is the `template` after the `patch` was applied. An added container takes missing values from the default.
    """
    main = template["containers"][0]["name"]
    storage = {part: {RESOURCE: values[RESOURCE]} for part, values in default.items() if RESOURCE in values}
    for kind in ("containers", "initContainers"):
        own = {container["name"] for container in template.get(kind, ())}
        over = {container["name"]: container.get("resources", {}) for container in patch.get(kind, ())}
        for container in pod.get(kind, ()):
            name = container["name"]
            if name not in own:
                container["resources"] = limited(container.get("resources"), storage)
            elif any(RESOURCE in over.get(name, {}).get(part, {}) for part in ("requests", "limits")):
                container["resources"] = _fitted(container["resources"], over[name])
                if name == main:
                    pod["volumes"] = [_resized(volume, limit_of(container)) for volume in pod["volumes"]]


def resource_problems(where: str, resources: Any) -> Iterator[str]:
    """Yield the errors in the `resources` of a patch."""
    if not isinstance(resources, Mapping):
        yield f"{where} must be an object with requests and limits"
        return
    for part in ("requests", "limits"):
        values = resources.get(part, {})
        if not isinstance(values, Mapping):
            yield f"{where}.{part} must be an object"
        elif RESOURCE in values and not _is_quantity(values[RESOURCE]):
            yield f"{where}.{part}.{RESOURCE} must be a quantity, such as 1Gi"


def limit_of(container: Mapping[str, Any]) -> str | int:
    """Return the limit that `limited` gave a container."""
    limit: str | int = container["resources"]["limits"][RESOURCE]
    return limit


def empty_dir(name: str, size: str | int) -> dict[str, Any]:
    """Return an `emptyDir` volume on the node's disk that holds at most `size`."""
    return {"name": name, "emptyDir": {"sizeLimit": size}}


def tmp_volume(resources: Resources, default: Resources) -> dict[str, Any]:
    """Return the `/tmp` volume. Its size is the container's limit before other volumes are added."""
    return empty_dir("tmp", limited(resources, default)["limits"][RESOURCE])


def sizes(volumes: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return the size limits of the `emptyDir` volumes."""
    return [str(volume["emptyDir"]["sizeLimit"]) for volume in volumes if "sizeLimit" in volume.get("emptyDir", {})]


def _fitted(merged: Resources, patch: Resources) -> dict[str, Any]:
    """Return merged resources whose limit covers the request. Values that the patch does not set are adjusted."""
    request, limit = merged["requests"][RESOURCE], merged["limits"][RESOURCE]
    if RESOURCE not in patch.get("requests", {}):
        request = _smaller(request, limit)
    elif RESOURCE not in patch.get("limits", {}):
        limit = _larger(limit, request)
    requests, limits = {**merged["requests"], RESOURCE: request}, {**merged["limits"], RESOURCE: limit}
    return {**merged, "requests": requests, "limits": limits}


def _resized(volume: dict[str, Any], size: str | int) -> dict[str, Any]:
    return empty_dir("tmp", size) if volume["name"] == "tmp" else volume


def _is_quantity(value: Any) -> bool:
    try:
        return math.isfinite(parse_quantity(value))
    except ValueError:
        return False


def _named(default: Resources, part: str, fallback: str) -> str | int:
    value: str | int = default.get(part, {}).get(RESOURCE, fallback)
    return value


def _larger(one: str | int, other: str | int | None) -> str | int:
    return other if other is not None and parse_quantity(other) > parse_quantity(one) else one


def _smaller(one: str | int, other: str | int) -> str | int:
    return other if parse_quantity(other) < parse_quantity(one) else one


def _sum(quantities: list[str]) -> str:
    """Return the total in the largest binary unit without a fraction. A single quantity stays as written."""
    if len(quantities) == 1:
        return quantities[0]
    total = sum(int(min(parse_quantity(quantity), _MOST)) for quantity in quantities)
    unit = ""
    for following in _UNITS:
        if total % 1024:
            break
        total, unit = total // 1024, following
    return f"{total}{unit}"
