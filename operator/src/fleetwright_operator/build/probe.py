"""A probe: a pod that examines one thing from inside the network and exits, with its NetworkPolicy. Pure.

Such a pod, and never the operator, examines everything outside the Kubernetes API. The pod's report is the last line of
its log, one JSON document. A probe's name contains a hash of its inputs, so equal probes never run concurrently. A
probe pod does not have the labels of its owner's own pods, so no Service sends it traffic.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from fleetwright_api import names
from fleetwright_api.encoding.canonical_json import short_hash
from fleetwright_operator.build.manifest import Manifest, Owner
from fleetwright_operator.build.network.egress import EgressRule, policy_rules
from fleetwright_operator.build.pod.ephemeral_storage import RESOURCE, tmp_volume
from fleetwright_operator.build.pod.helper_pod import HelperPodSettings
from fleetwright_operator.build.pod.pod_security import container_security, pull_secrets, sealed_pod
from fleetwright_operator.settings import Settings

_RESOURCES = {
    "requests": {"cpu": "20m", "memory": "96Mi", RESOURCE: "16Mi"},
    "limits": {"memory": "256Mi", RESOURCE: "256Mi"},
}
_ENDING_SECONDS = 5
CONTAINER = "probe"


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """One probe. `pod` is the pod's spec, to which the fields are added that make it run once."""

    owner: Owner
    pod: Mapping[str, Any]
    egress_rules: Sequence[EgressRule] | None
    """All that the pod may reach; None if other policies decide that."""
    seconds: int = 60
    """The deadline in seconds, after which the probe counts as failed."""
    about: Sequence[str] = ()
    """Other facts that the result depends on, such as the uid of the examined pod."""
    placed_pod: Mapping[str, Any] | None = None
    """The pod's spec with its placement and fitted resources, which do not change the answer; None if it is `pod`."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels that a user or the installation adds to the operator's own."""
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def question(self) -> str:
        """The hash of everything on which the answer depends. An answer stays valid if a pod is placed elsewhere."""
        rules = policy_rules(list(self.egress_rules or ()))
        pod = {key: value for key, value in self.pod.items() if key != "nodeSelector"}
        return short_hash([self.owner.kind, self.owner.uid, pod, rules, self.seconds, list(self.about)])

    @property
    def pod_hash(self) -> str:
        """The hash of the pod. Most fields of a pod are immutable, so another placement needs another pod."""
        return short_hash([self.question, dict(self.spec), dict(self.labels), dict(self.annotations)])

    @property
    def spec(self) -> Mapping[str, Any]:
        return self.pod if self.placed_pod is None else self.placed_pod

    @property
    def name(self) -> str:
        return names.probe(self.owner.name, self.pod_hash)


def runtime_pod(
    arguments: Sequence[str],
    settings: Settings,
    *,
    mounts: Sequence[Mapping[str, Any]] = (),
    volumes: Sequence[Mapping[str, Any]] = (),
    pull: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the spec of a small restricted pod that runs `fleetwright-agent probe <arguments>`.

    Args: `pull` names pull Secrets for image volumes.
    """
    container = {
        "name": CONTAINER,
        "image": settings.agent_image,
        "imagePullPolicy": "IfNotPresent",
        "command": ["fleetwright-agent", "probe", *arguments],
        "resources": _RESOURCES,
        "securityContext": container_security(),
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "volumeMounts": [*(dict(mount) for mount in mounts), {"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - its own
    }
    return {
        **sealed_pod(settings),
        **pull_secrets([*settings.pull_secrets, *pull]),
        "containers": [container],
        "volumes": [*(dict(volume) for volume in volumes), tmp_volume(_RESOURCES, {})],
    }


def helper_probe(probe: Probe, helpers: HelperPodSettings) -> Probe:
    """Return the probe with a pod that is placed and admitted as a helper of its owner."""
    metadata = helpers.merge_metadata(probe.labels, probe.annotations)
    return replace(
        probe,
        placed_pod=helpers.complete_single_pod(probe.pod),
        labels=metadata["labels"],
        annotations=metadata.get("annotations", {}),
    )


def probe_manifests(probe: Probe) -> list[Manifest]:
    """Return the policy before the pod, so that no probe runs without it."""
    return [_policy(probe), _pod(probe)]


def _pod(probe: Probe) -> Manifest:
    head = _head("v1", "Pod", probe)
    metadata = {**head["metadata"], "labels": {**probe.labels, **head["metadata"]["labels"]}}
    if probe.annotations:
        metadata["annotations"] = dict(probe.annotations)
    return {
        **head,
        "metadata": metadata,
        "spec": {
            **probe.spec,
            "restartPolicy": "Never",
            "activeDeadlineSeconds": probe.seconds,
            "terminationGracePeriodSeconds": _ENDING_SECONDS,
        },
    }


def _policy(probe: Probe) -> Manifest:
    """Return a policy that denies ingress and allows the routes.

    The policy is written even if it restricts no egress, because a preflight's policy represents a rollout slot.
    """
    rules = policy_rules(list(probe.egress_rules or ()))
    return {
        **_head("networking.k8s.io/v1", "NetworkPolicy", probe),
        "spec": {
            "podSelector": {"matchLabels": _own_labels(probe)},
            "policyTypes": ["Ingress", *([] if probe.egress_rules is None else ["Egress"])],
            # The API server drops an empty list. A policy without the list denies everything as well.
            **({"egress": rules} if rules else {}),
        },
    }


def _head(api_version: str, kind: str, probe: Probe) -> Manifest:
    owner = probe.owner
    labels = {**names.probe_labels(owner.kind, owner.name), names.PROBE_LABEL: probe.pod_hash}
    metadata = {
        "name": probe.name,
        "namespace": owner.namespace,
        "labels": labels,
        "ownerReferences": [owner.reference],
    }
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}


def _own_labels(probe: Probe) -> dict[str, str]:
    return {names.probed_label(probe.owner.kind): probe.owner.name, names.PROBE_LABEL: probe.pod_hash}
