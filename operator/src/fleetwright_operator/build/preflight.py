"""The pod that shows whether the next revision can start, before it takes the place of the one that serves. Pure.

It is the very pod of the Deployment, with a memory of its own, a small claim on the node, and an end: an agent's memory
has one writer, so two revisions can never run side by side. What somebody put beside the agent runs here too, in the
form that ends with the pod, and what was said of the pod's neighbours is left out: one of them is about to go.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_operator.api import names
from fleetwright_operator.api.quantity import amount
from fleetwright_operator.build.deployment import CONTAINER
from fleetwright_operator.build.manifest import Owner
from fleetwright_operator.build.network.egress import Route
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, empty_dir, limit_of
from fleetwright_operator.build.pod.pod_template import somebodys
from fleetwright_operator.build.probe import Probe

SECONDS = 120
_ARGUMENTS = ["probe", "agent"]
_REQUESTS = {"cpu": "20m", "memory": "96Mi", RESOURCE: "16Mi"}
_PROBES = {"livenessProbe", "readinessProbe", "startupProbe"}
_NEVER = f"{names.GROUP}/serves"
"""A condition that nobody sets: by whatever labels a Service finds the pod, it sends it nothing."""


def preflight(
    owner: Owner, template: Mapping[str, Any], *, routes: Sequence[Route] | None, referenced: Sequence[str]
) -> Probe:
    """`routes` are None where the agent's policies are somebody else's, as those of the pod that will serve are.

    `referenced` are the versions of the files that it mounts: a mended one is another question.
    """
    return Probe(
        owner=owner,
        pod=_pod(template["spec"]),
        routes=routes,
        seconds=SECONDS,
        about=referenced,
        labels=somebodys(template["metadata"], "labels"),
        annotations=somebodys(template["metadata"], "annotations"),
    )


def _pod(spec: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in spec.items() if key not in {"affinity", "topologySpreadConstraints"}}
    main = next(container for container in spec["containers"] if container["name"] == CONTAINER)
    beside = [_sidecar(container) for container in spec["containers"] if container["name"] != CONTAINER]
    first = [*spec.get("initContainers", ()), *beside]
    affinity = {key: value for key, value in spec.get("affinity", {}).items() if key != "podAntiAffinity"}
    return {
        **kept,
        **({"affinity": affinity} if affinity else {}),
        **({"initContainers": first} if first else {}),
        "containers": [_container(main)],
        "volumes": [
            volume if volume["name"] != "memory" else empty_dir("memory", limit_of(main)) for volume in spec["volumes"]
        ],
        "readinessGates": [{"conditionType": _NEVER}],
    }


def _sidecar(container: Mapping[str, Any]) -> dict[str, Any]:
    """It starts before the agent and ends after it. It is not asked how it is: that may depend on the agent."""
    return {**{key: value for key, value in container.items() if key not in _PROBES}, "restartPolicy": "Always"}


def _container(main: Mapping[str, Any]) -> dict[str, Any]:
    """Our program looks and ends. Somebody else's is told to, and may as well serve: then it is proven by that."""
    command = main.get("command", [])[:1]
    resources = {**main.get("resources", {}), "requests": _requests(main.get("resources", {}).get("limits", {}))}
    kept = {key: value for key, value in main.items() if key not in {"command", "livenessProbe", "startupProbe"}}
    return {**kept, **({"command": command} if command else {}), "args": _ARGUMENTS, "resources": resources}


def _requests(limits: Mapping[str, Any]) -> dict[str, Any]:
    """The pod that serves holds its own until it goes, so this one asks for little; never for more than it may use."""
    return {
        name: limits[name] if name in limits and amount(limits[name]) < amount(little) else little
        for name, little in _REQUESTS.items()
    }
