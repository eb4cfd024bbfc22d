"""Helper pods: where they may be placed, and how they are admitted. Pure.

Helper pods are the pods that the operator adds to those that a user declares: probes, preflights, workspaces, egress
proxies and clones. The owner's `podTemplate` places them first, and then the installation's `helperPods`. Their
resources fit the LimitRanges and quotas of the namespace.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from fleetwright_api.quantity import parse_quantity
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, empty_dir
from fleetwright_operator.build.pod.namespace_limits import NamespaceLimits, fit_pod
from fleetwright_operator.build.pod.pod_security import LINUX
from fleetwright_operator.settings import Settings

_SINGLE_FIELDS: Final = ("runtimeClassName", "schedulerName")


@dataclass(frozen=True, slots=True, kw_only=True)
class HelperPodSettings:
    """The common settings of the helper pods of one owner."""

    settings: Settings
    template: Mapping[str, Any] = field(default_factory=dict)
    """The `podTemplate` of the owner; empty if it has none. The API server validates the values of its fields."""
    limits: NamespaceLimits = field(default_factory=NamespaceLimits)

    def merge_resources(self, own: Mapping[str, Any]) -> dict[str, Any]:
        """Return a container's own resources with those of the installation's `helperPods` over them."""
        return override_resources(own, self.settings.helper_pods.resources)

    def merge_metadata(self, labels: Mapping[str, str], annotations: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return labels and annotations with those of `helperPods` below them."""
        helper = self.settings.helper_pods
        whole = {**helper.annotations, **(annotations or {})}
        return {"labels": {**helper.labels, **labels}, **({"annotations": whole} if whole else {})}

    def complete_pod(self, pod: Mapping[str, Any], *, fitted: Sequence[str]) -> dict[str, Any]:
        """Return a pod's spec with its placement. Args: `fitted` are the containers whose resources are ours."""
        return {**fit_pod(pod, fitted, self.limits), **self._placement(pod)}

    def complete_single_pod(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Return the spec of a pod with one container, whose `/tmp` may hold what the container may store."""
        (container,) = pod["containers"]
        container = {**container, "resources": self.merge_resources(container["resources"])}
        whole = self.complete_pod({**pod, "containers": [container]}, fitted=[container["name"]])
        limit = whole["containers"][0]["resources"]["limits"][RESOURCE]
        volumes = [empty_dir("tmp", limit) if each["name"] == "tmp" else each for each in pod.get("volumes", ())]
        return {**whole, **({"volumes": volumes} if volumes else {})}

    def _placement(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields that place the pod. A runtime class or scheduler that the pod has already stays."""
        helper, template = self.settings.helper_pods, _part(self.template, "spec")
        node_affinity = _part(template, "affinity").get("nodeAffinity")
        # Nodes that match both the Agent's choice and the installation's may not exist.
        is_placed = "nodeSelector" in template or node_affinity is not None
        selector = _part(template, "nodeSelector") if is_placed else helper.node_selector
        named = template.get("tolerations")
        tolerations = list(named) if isinstance(named, list | tuple) else []
        tolerations += [dict(each) for each in helper.tolerations if each not in tolerations]
        priority = {key: template[key] for key in ("priorityClassName", "preemptionPolicy") if key in template}
        if "priorityClassName" not in priority and helper.priority_class_name:
            priority = {"priorityClassName": helper.priority_class_name}
        return {
            "nodeSelector": {**LINUX, **selector},
            # Pod affinity concerns the agent's own pod.
            **({"affinity": {"nodeAffinity": node_affinity}} if node_affinity is not None else {}),
            **({"tolerations": tolerations} if tolerations else {}),
            **priority,
            **{key: template[key] for key in _SINGLE_FIELDS if key in template and key not in pod},
        }


def _part(whole: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return a field that is an object. A field of another type is empty: the API server refuses the owner's pod."""
    part = whole.get(key)
    return part if isinstance(part, Mapping) else {}


def override_resources(own: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """Return resources with the requests and limits of `other` over them. No request exceeds its limit.

    A request of `other` raises our limit, and a limit of `other` lowers our request.
    """
    whole = {part: {**own.get(part, {}), **other.get(part, {})} for part in ("requests", "limits")}
    for name, request in whole["requests"].items():
        limit = whole["limits"].get(name)
        if limit is None or parse_quantity(request) <= parse_quantity(limit):
            continue
        if name in other.get("requests", {}):
            whole["limits"][name] = request
        else:
            whole["requests"][name] = limit
    return {part: values for part, values in whole.items() if values}
