"""The pod that shows whether the next revision can start, before it takes the place of the one that serves. Pure.

It is the very pod of the Deployment, with a memory of its own and a small claim on the node: an agent's memory has
one writer, so two revisions can never run side by side.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator.desired.deployment import CONTAINER
from fleetwright_operator.desired.egress import Route
from fleetwright_operator.desired.manifest import Owner
from fleetwright_operator.desired.probe import Probe

SECONDS = 120
_ARGUMENTS = ["probe", "agent"]
_REQUESTS = {"cpu": "20m", "memory": "96Mi"}


def preflight(
    owner: Owner, template: Mapping[str, Any], *, routes: Sequence[Route], referenced: Sequence[str]
) -> Probe:
    """`referenced` are the versions of the files that it mounts: a mended one is another question."""
    spec = template["spec"]
    volumes = [volume if volume["name"] != "memory" else _own_memory(volume) for volume in spec["volumes"]]
    main = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    pod = {**spec, "containers": [_container(main)], "volumes": volumes}
    return Probe(owner=owner, pod=pod, routes=routes, seconds=SECONDS, about=referenced)


def _own_memory(volume: Mapping[str, Any]) -> dict[str, Any]:
    return {"name": volume["name"], "emptyDir": {}}


def _container(main: Mapping[str, Any]) -> dict[str, Any]:
    """Our program looks and ends. Somebody else's is told to, and may as well serve: then it is proven by that."""
    command = main.get("command", [])[:1]
    resources = {**main.get("resources", {}), "requests": _REQUESTS}
    kept = {key: value for key, value in main.items() if key not in {"command", "livenessProbe", "startupProbe"}}
    return {**kept, **({"command": command} if command else {}), "args": _ARGUMENTS, "resources": resources}
