"""Applies a user's `podTemplate` patch to a pod. The patch can place and extend the pod, but not weaken its security.

Allowed fields are listed and all others are rejected, so a field that Kubernetes adds later is rejected as well. Added
containers get the same security settings.
"""

import posixpath
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from fleetwright_api import names
from fleetwright_operator.build.pod.ephemeral_storage import limit_patched, resource_problems
from fleetwright_operator.build.pod.pod_security import container_security
from fleetwright_operator.build.pod.strategic_merge import MERGED_BY, is_list_by, merged
from fleetwright_operator.settings import Settings

_SPEC = {
    "affinity",
    "containers",
    "dnsConfig",
    "dnsPolicy",
    "hostAliases",
    "imagePullSecrets",
    "initContainers",
    "nodeSelector",
    "preemptionPolicy",
    "priorityClassName",
    "runtimeClassName",
    "schedulerName",
    "terminationGracePeriodSeconds",
    "tolerations",
    "topologySpreadConstraints",
    "volumes",
}
_OWN_CONTAINER = {"name", "env", "envFrom", "resources", "volumeMounts"}
_ADDED_CONTAINER = {
    *_OWN_CONTAINER,
    "args",
    "command",
    "image",
    "imagePullPolicy",
    "lifecycle",
    "livenessProbe",
    "ports",
    "readinessProbe",
    "restartPolicy",
    "startupProbe",
    "terminationMessagePath",
    "terminationMessagePolicy",
    "workingDir",
}
_VOLUMES = {
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
}
_PROJECTED = {"clusterTrustBundle", "configMap", "downwardAPI", "secret", "serviceAccountToken"}
_API_AUDIENCES = re.compile(
    r"(https?://)?(kubernetes(\.default(\.svc(\..*)?)?)?(:[0-9]+)?/?|api|k3s|rke2)", re.IGNORECASE | re.DOTALL
)
"""Common audiences that API servers accept. Installations may use other ones."""
_UNQUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_]*[A-Za-z0-9])?")
"""An annotation without a domain. No kubelet, runtime or network plugin acts on such annotations."""
_CALLS = (
    ("lifecycle", "postStart"),
    ("lifecycle", "preStop"),
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
)
"""The container fields that make the kubelet call an address."""
_OWN_VOLUMES = ("configmap-", "secret-", "skill-")
Patch = Mapping[str, Any]


def apply_patch(template: Mapping[str, Any], patch: Patch, default: Mapping[str, Any]) -> dict[str, Any]:
    """Return the pod template with a valid patch applied.

    `default` are the installation's resources, from which an added container takes its ephemeral storage.
    """
    patch = _normalise_patch(patch)
    whole: dict[str, Any] = merged(template, patch)
    for kind in ("containers", "initContainers"):
        for container in whole["spec"].get(kind, ()):
            container["securityContext"] = container_security()
    limit_patched(whole["spec"], template["spec"], patch.get("spec", {}), default)
    return whole


def _normalise_patch(patch: Patch) -> dict[str, Any]:
    """Return the patch as an API server stores it.

    The API server drops empty lists, and completes the key of a port. Otherwise these fields would look as if somebody
    else had changed them, and would be written in every reconcile.
    """
    whole: dict[str, Any] = _without_empty_lists(patch)
    for kind in ("containers", "initContainers"):
        for container in whole.get("spec", {}).get(kind, ()):
            for port in container.get("ports", ()):
                port.setdefault("protocol", "TCP")
    return whole


def _without_empty_lists(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_empty_lists(below) for key, below in value.items() if below != []}
    return [_without_empty_lists(below) for below in value] if isinstance(value, list) else value


def metadata_of_template(metadata: Mapping[str, Any], part: str) -> dict[str, str]:
    """The labels or annotations of a patched template that are not the operator's own."""
    return {key: value for key, value in metadata.get(part, {}).items() if not key.startswith(names.OWN_PREFIXES)}


def template_problems(patch: Any, template: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    """Yield the reasons why a patch cannot be applied to this template. Each reason names the field and the remedy."""
    if not isinstance(patch, Mapping):
        yield "podTemplate must be an object with metadata and spec"
        return
    if nothing := list(_nulls("podTemplate", patch)):
        yield from nothing
        return
    yield from _unknown("podTemplate", patch, {"metadata", "spec"})
    yield from _metadata(patch.get("metadata", {}), settings)
    pod = patch.get("spec", {})
    if not isinstance(pod, Mapping):
        yield "podTemplate.spec must be an object"
        return
    yield from _unknown("podTemplate.spec", pod, _SPEC)
    yield from _grace(pod, template)
    if malformed := list(_lists("podTemplate.spec", pod)):
        yield from malformed
        return
    for kind in ("containers", "initContainers"):
        yield from _containers(kind, pod.get(kind, ()), template)
    yield from _volumes(pod.get("volumes", ()), template, settings)


def _metadata(metadata: Any, settings: Settings) -> Iterator[str]:
    if not isinstance(metadata, Mapping):
        yield "podTemplate.metadata must be an object"
        return
    yield from _unknown("podTemplate.metadata", metadata, {"labels", "annotations"})
    for part in ("labels", "annotations"):
        entries = metadata.get(part, {})
        if not isinstance(entries, Mapping):
            yield f"podTemplate.metadata.{part} must be an object"
            continue
        for key in entries:
            if str(key).startswith(names.OWN_PREFIXES):
                yield f"podTemplate.metadata.{part}[{key}] is managed by the operator; remove it"
            elif part == "annotations" and not _may_annotate(str(key), settings.pod_annotations):
                yield (
                    f"podTemplate.metadata.annotations[{key}] is not among the annotations that this installation"
                    " allows, because annotations can weaken the security of a pod; remove it, or add it to the"
                    " chart's podTemplate.annotations"
                )


def _may_annotate(key: str, allowed: Sequence[str]) -> bool:
    whole = f"{key.partition('/')[0]}/*"
    return _UNQUALIFIED.fullmatch(key) is not None or key in allowed or ("/" in key and whole in allowed)


def _grace(pod: Mapping[str, Any], template: Mapping[str, Any]) -> Iterator[str]:
    least = template["spec"].get("terminationGracePeriodSeconds", 0)
    wanted = pod.get("terminationGracePeriodSeconds", least)
    if not isinstance(wanted, int) or wanted < least:
        why = ", which draining tasks needs" if least else ""
        yield f"podTemplate.spec.terminationGracePeriodSeconds must be at least {least}{why}"


def _containers(kind: str, containers: Sequence[Mapping[str, Any]], template: Mapping[str, Any]) -> Iterator[str]:
    own = {container["name"] for container in template["spec"].get(kind, ())}
    for container in containers:
        where = f"podTemplate.spec.{kind}[{container['name']}]"
        if kind == "initContainers" and container["name"].startswith(_OWN_VOLUMES):
            yield f"{where} is the operator's own container; use another name"
        yield from _unknown(where, container, _OWN_CONTAINER if container["name"] in own else _ADDED_CONTAINER)
        if malformed := list(_lists(where, container)):
            yield from malformed
            continue
        yield from _mounts(where, container, template)
        if any(isinstance(port, Mapping) and port.get("hostPort") for port in container.get("ports") or ()):
            yield f"{where}.ports must not set hostPort; use a Service to reach the pod"
        yield from _calls(where, container)
        yield from resource_problems(f"{where}.resources", container.get("resources", {}))


def _calls(where: str, container: Mapping[str, Any]) -> Iterator[str]:
    """Reject hosts in probes and lifecycle hooks.

    The kubelet calls these hosts from the node, and no network policy restricts the node. A container may therefore
    name only its own pod.
    """
    for path in _CALLS:
        call: Any = container
        for key in path:
            call = _part(call, key)
        for action in ("httpGet", "tcpSocket"):
            if "host" in _part(call, action):
                place = ".".join((where, *path, action))
                yield f"{place}.host would make the node call another address; remove it to call the pod itself"


def _part(whole: Any, key: str) -> Mapping[str, Any]:
    part = whole.get(key) if isinstance(whole, Mapping) else None
    return part if isinstance(part, Mapping) else {}


def _mounts(where: str, container: Mapping[str, Any], template: Mapping[str, Any]) -> Iterator[str]:
    mounts = container.get("volumeMounts", ())
    for kind in ("containers", "initContainers"):
        for own in template["spec"].get(kind, ()):
            if own["name"] == container["name"]:
                yield from _covered(where, mounts, [mount["mountPath"] for mount in own.get("volumeMounts", ())])


def _covered(where: str, mounts: Sequence[Mapping[str, Any]], ours: Sequence[str]) -> Iterator[str]:
    for mount in mounts:
        path = _normalised(str(mount["mountPath"]))
        if any(path in {own, "/"} or own.startswith(f"{path}/") or path.startswith(f"{own}/") for own in ours):
            yield f"{where}.volumeMounts[{mount['mountPath']}] would cover a mount of the operator; use another path"


def _normalised(path: str) -> str:
    """Return the path as a container runtime resolves it: from the root, without `.`, `..` and doubled slashes."""
    return posixpath.normpath(f"/{path.lstrip('/')}")


def _volumes(volumes: Sequence[Mapping[str, Any]], template: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    ours = {volume["name"] for volume in template["spec"].get("volumes", ())}
    for volume in volumes:
        where = f"podTemplate.spec.volumes[{volume['name']}]"
        if volume["name"] in ours or volume["name"].startswith(_OWN_VOLUMES):
            yield f"{where} is the operator's own volume; use another name"
        for kind in set(volume) - {"name"} - _VOLUMES:
            yield f"{where}.{kind} is not a volume type that a restricted pod may have; remove it"
        yield from _projected(where, volume, settings)


def _projected(where: str, volume: Mapping[str, Any], settings: Settings) -> Iterator[str]:
    sources = _part(volume, "projected").get("sources", ())
    for source in sources if isinstance(sources, list | tuple) else ():
        if not isinstance(source, Mapping):
            continue
        for kind in sorted(str(kind) for kind in source if kind not in _PROJECTED):
            yield f"{where}.projected.sources has {kind}; allowed sources: {', '.join(sorted(_PROJECTED))}"
        token = source.get("serviceAccountToken")
        audience = str(token.get("audience", "")) if isinstance(token, Mapping) else None
        if audience is not None and _is_for_the_api(audience, settings):
            yield f"{where} would give the pod a token for the Kubernetes API; set another audience"


def _is_for_the_api(audience: str, settings: Settings) -> bool:
    """Return whether the API server accepts a token of this audience.

    Without an audience a token is for the API server.
    """
    known = {each.rstrip("/").lower() for each in settings.api_audiences}
    return not audience or audience.rstrip("/").lower() in known or bool(_API_AUDIENCES.fullmatch(audience))


def _nulls(where: str, part: Any) -> Iterator[str]:
    """Yield an error for each null. A null would delete a field, but a patch may only add fields."""
    if part is None:
        yield f"{where} is null; remove it, because a patch can only add"
    elif isinstance(part, Mapping):
        for key, value in part.items():
            yield from _nulls(f"{where}.{key}", value)
    elif isinstance(part, list | tuple):
        for index, value in enumerate(part):
            yield from _nulls(f"{where}[{index}]", value)


def _unknown(where: str, part: Mapping[str, Any], known: set[str]) -> Iterator[str]:
    for key in sorted(str(key) for key in part if key not in known):
        yield f"{where}.{key} cannot be set; allowed fields: {', '.join(sorted(known - {'name'}))}"


def _lists(where: str, part: Mapping[str, Any]) -> Iterator[str]:
    for key in sorted(MERGED_BY.keys() & part.keys()):
        if not is_list_by(part[key], MERGED_BY[key]):
            yield f"{where}.{key} must be a list whose entries each have a unique {MERGED_BY[key]}"
