"""The preflight pod of an agent's next revision. Pure.

The operator replaces the serving pod only after the preflight pod has shown that the next revision can start. The
preflight pod has the template of the Deployment's pod, but a separate empty memory, small requests and a deadline. The
memory is separate because the agent's memory has a single writer, the serving pod. The containers that `podTemplate`
adds run as sidecars, which end when the agent's container ends. Pod anti-affinity and topology spread are removed,
because the serving pod will be replaced.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_api.quantity import parse_quantity
from fleetwright_operator.build.deployment import CONTAINER
from fleetwright_operator.build.manifest import Owner
from fleetwright_operator.build.network.egress import EgressRule
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, empty_dir, limit_of
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.namespace_limits import NO_LIMITS, fit_pod
from fleetwright_operator.build.pod.pod_template import metadata_of_template
from fleetwright_operator.build.probe import Probe
from fleetwright_operator.settings import HelperPodDefaults

SECONDS = 120
_ARGUMENTS = ["probe", "agent"]
_REQUESTS = {"cpu": "20m", "memory": "96Mi", RESOURCE: "16Mi"}
_PROBES = {"livenessProbe", "readinessProbe", "startupProbe"}
_PREFLIGHT_VARIABLE = {"name": "FLEETWRIGHT_PREFLIGHT", "value": "true"}
"""The variable that marks a preflight pod. A program that serves there must not start tasks of its own."""
_NEVER = f"{names.GROUP}/serves"
"""A readiness gate that is never set. It keeps Services from sending traffic to the pod, whatever its labels are."""


def preflight(
    owner: Owner,
    template: Mapping[str, Any],
    *,
    egress_rules: Sequence[EgressRule] | None,
    referenced: Sequence[str],
    helpers: HelperPodSettings | None = None,
) -> Probe:
    """Return the preflight probe. `egress_rules` is None if the agent's policies are not managed.

    `referenced` are the versions of the mounted files, so that a repaired file starts a new preflight. `helpers` adds
    labels, annotations and requests. The pod is placed as the agent's own, so that it shows that the agent can start.
    """
    defaults = helpers.settings.helper_pods if helpers else HelperPodDefaults()
    limits = helpers.limits if helpers else NO_LIMITS
    return Probe(
        owner=owner,
        pod=fit_pod(
            _pod(template["spec"], {**_REQUESTS, **defaults.resources.get("requests", {})}), [CONTAINER], limits
        ),
        egress_rules=egress_rules,
        seconds=SECONDS,
        about=referenced,
        labels={**defaults.labels, **metadata_of_template(template["metadata"], "labels")},
        annotations={**defaults.annotations, **metadata_of_template(template["metadata"], "annotations")},
    )


def _pod(pod: Mapping[str, Any], requests: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in pod.items() if key not in {"affinity", "topologySpreadConstraints"}}
    main = next(container for container in pod["containers"] if container["name"] == CONTAINER)
    beside = [_sidecar(container) for container in pod["containers"] if container["name"] != CONTAINER]
    first = [*pod.get("initContainers", ()), *beside]
    affinity = {key: value for key, value in pod.get("affinity", {}).items() if key != "podAntiAffinity"}
    return {
        **kept,
        **({"affinity": affinity} if affinity else {}),
        **({"initContainers": first} if first else {}),
        "containers": [_container(main, requests)],
        "volumes": [
            volume if volume["name"] != "memory" else empty_dir("memory", limit_of(main)) for volume in pod["volumes"]
        ],
        "readinessGates": [{"conditionType": _NEVER}],
    }


def _sidecar(container: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sidecar, which starts before the agent and ends after it.

    Its probes are removed; they may need the agent.
    """
    return {**{key: value for key, value in container.items() if key not in _PROBES}, "restartPolicy": "Always"}


def _container(main: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    """Return the agent's container with the preflight command.

    The agent image's program runs its checks and exits. A custom program gets the same arguments and may serve instead;
    then readiness counts as success.
    """
    command = main.get("command", [])[:1]
    resources = {**main.get("resources", {}), "requests": _requests(small, main.get("resources", {}).get("limits", {}))}
    kept = {key: value for key, value in main.items() if key not in {"command", "livenessProbe", "startupProbe"}}
    others = [each for each in main.get("env", []) if each["name"] != _PREFLIGHT_VARIABLE["name"]]
    changed = {"args": _ARGUMENTS, "env": [*others, _PREFLIGHT_VARIABLE], "resources": resources}
    return {**kept, **({"command": command} if command else {}), **changed}


def _requests(small: Mapping[str, Any], limits: Mapping[str, Any]) -> dict[str, Any]:
    """Return the resource requests. They are small, because the serving pod still holds its own requests.

    A request above the container's limit would be invalid, so a lower limit replaces it.
    """
    return {
        name: limits[name] if name in limits and parse_quantity(limits[name]) < parse_quantity(little) else little
        for name, little in small.items()
    }
