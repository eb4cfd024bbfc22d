"""The projections of each kind: the few facts besides metadata that decisions need, and that the cache keeps."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from fleetwright_api import names
from fleetwright_api.spec.agent import parse_agent
from fleetwright_api.spec.approval import parse_approval
from fleetwright_api.spec.custom_object import CustomObject
from fleetwright_api.spec.mcp_server import parse_mcp_server
from fleetwright_api.spec.skill import parse_skill
from fleetwright_kube.port import Object
from fleetwright_operator.kinds.views import VIEW


def _custom(parse: Callable[[Object], CustomObject], body: Object) -> dict[str, Any]:
    view = parse(body)
    return {VIEW: view, "status": view.status}


def _deployment(body: Object) -> dict[str, Any]:
    template = body["spec"]["template"]
    volumes = template["spec"].get("volumes", ())
    return {
        "status": body.get("status", {}),
        "replicas": body["spec"].get("replicas", 1),
        "paused": body["spec"].get("paused", False),
        "revision": template["metadata"].get("annotations", {}).get(names.REVISION_ANNOTATION, ""),
        "mounts": frozenset(volume["configMap"]["name"] for volume in volumes if "configMap" in volume),
        "volumes": frozenset(volume["name"] for volume in volumes),
        "claims": frozenset(
            volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume
        ),
    }


def _pod(body: Object) -> dict[str, Any]:
    status = body.get("status", {})
    kept = ("phase", "podIP", "conditions", "reason", "message")
    first = [each for each in status.get("initContainerStatuses", ()) if not _has_succeeded(each)]
    containers = [*first, *status.get("containerStatuses", ())]
    annotations = body["metadata"].get("annotations", {})
    return {
        **{key: status[key] for key in kept if key in status},
        **({"containerStatuses": containers} if containers else {}),
        "revision": annotations.get(names.REVISION_ANNOTATION, ""),
    }


def _has_succeeded(container: Mapping[str, Any]) -> bool:
    return bool(container.get("state", {}).get("terminated", {}).get("exitCode") == 0)


def _config_map(body: Object) -> dict[str, Any]:
    return {"keys": tuple(sorted(body.get("data", {})))}


def _data(body: Object) -> dict[str, Any]:
    return {"data": body.get("data", {})}


def _service(body: Object) -> dict[str, Any]:
    service = body.get("spec", {})
    # HTTP uses TCP, and the same number may also be a UDP port.
    tcp = [port for port in service.get("ports", ()) if port.get("protocol", "TCP") == "TCP"]
    ports = {port["port"]: port.get("targetPort", port["port"]) for port in tcp}
    address = service.get("clusterIP", "")
    is_headless = address == "None"
    return {
        "selector": service.get("selector", {}),
        "ports": ports,
        "headless": is_headless,
        "cluster_ip": "" if is_headless else address,
    }


def _claim(body: Object) -> dict[str, Any]:
    claim = body.get("spec", {})
    return {
        "phase": body.get("status", {}).get("phase", ""),
        "size": claim.get("resources", {}).get("requests", {}).get("storage", "0"),
        "storage_class": claim.get("storageClassName"),
        "access_modes": tuple(claim.get("accessModes", ())),
    }


def _key_names(body: Object) -> dict[str, Any]:
    """Return the names of the data keys, as far as `managedFields` shows them; None if it does not."""
    managers = [manager.get("fieldsV1", {}) for manager in body["metadata"].get("managedFields", ())]
    if not any(managers):
        return {"keys": None}
    # A server-side apply of stringData is recorded under that name only, although the server stores it as data.
    parts = ("f:data", "f:binaryData", "f:stringData")
    fields = {key for manager in managers for part in parts for key in manager.get(part, {})}
    return {"keys": frozenset(key.removeprefix("f:") for key in fields if key.startswith("f:"))}


def _limit_range(body: Object) -> dict[str, Any]:
    return {"ranges": tuple(each for each in body["spec"].get("limits", ()) if each["type"] in {"Container", "Pod"})}


def _quota(body: Object) -> dict[str, Any]:
    return {"hard": tuple(sorted(body.get("spec", {}).get("hard", {})))}


PROJECTIONS: Mapping[str, Callable[[Object], dict[str, Any]]] = {
    names.AGENT: partial(_custom, parse_agent),
    names.SKILL: partial(_custom, parse_skill),
    names.MCP_SERVER: partial(_custom, parse_mcp_server),
    names.APPROVAL: partial(_custom, parse_approval),
    "Deployment": _deployment,
    "Pod": _pod,
    "ConfigMap": _config_map,
    "Secret": _data,
    names.CARD_KEYS: _data,
    names.GATEWAY_KEYS: _data,
    names.KEY_SET: _data,
    "Service": _service,
    "PersistentVolumeClaim": _claim,
    "LimitRange": _limit_range,
    "ResourceQuota": _quota,
    "SecretMetadata": _key_names,
    "ConfigMapMetadata": _key_names,
}
