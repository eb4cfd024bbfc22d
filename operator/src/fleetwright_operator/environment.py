"""Reads the settings once from the environment that the chart sets.

This module never guesses: an unusable value stops the operator with an error that names the variable.
"""

import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import yaml

from fleetwright_api import durations, names
from fleetwright_api.address_space import Endpoint, Network, covers_all_public
from fleetwright_api.model_catalog import Catalog, parse_catalog
from fleetwright_api.quantity import parse_quantity
from fleetwright_operator.credentials.rotation import SHORTEST, Rotation
from fleetwright_operator.settings import Cilium, Dns, GatewayReference, HelperPodDefaults, PodSelector, Settings

_MINUTE: Final = 60
_HELPER_FIELDS: Final[Mapping[str, tuple[type, str]]] = {
    "resources": (dict, "an object"),
    "labels": (dict, "an object"),
    "annotations": (dict, "an object"),
    "nodeSelector": (dict, "an object"),
    "tolerations": (list, "a list"),
    "priorityClassName": (str, "a string"),
}
_DENY_API_SERVER = "FLEETWRIGHT_DENY_API_SERVER"


def settings_from(environ: Mapping[str, str]) -> Settings:
    """Read the settings from an environment.

    Raises:
        ValueError: A variable has an unusable value; the message names the variable.
    """
    base = Settings()
    return Settings(
        agent_image=environ.get("FLEETWRIGHT_AGENT_IMAGE", base.agent_image),
        cluster_domain=environ.get("FLEETWRIGHT_CLUSTER_DOMAIN", base.cluster_domain),
        pull_secrets=_listed(environ, "FLEETWRIGHT_AGENT_IMAGE_PULL_SECRETS"),
        namespaces=_listed(environ, "FLEETWRIGHT_NAMESPACES"),
        catalog=_catalog(environ.get("FLEETWRIGHT_CATALOG_FILE")),
        agent_resources=_json(environ, "FLEETWRIGHT_AGENT_RESOURCES", base.agent_resources),
        server_resources=_json(environ, "FLEETWRIGHT_SERVER_RESOURCES", base.server_resources),
        helper_pods=_helper_pods(environ, "FLEETWRIGHT_HELPER_PODS"),
        omit_ids=_switch(environ, "FLEETWRIGHT_OMIT_IDS", base.omit_ids),
        token_rotation=_rotation(environ, "FLEETWRIGHT_TOKEN", base.token_rotation),
        drain_seconds=int(_number(environ, "FLEETWRIGHT_DRAIN_SECONDS", base.drain_seconds)),
        token_lead_seconds=int(_number(environ, "FLEETWRIGHT_TOKEN_LEAD_SECONDS", base.token_lead_seconds)),
        dns=_dns(environ, "FLEETWRIGHT_DNS", base.dns),
        monitoring=_pods(environ, "FLEETWRIGHT_MONITORING_PODS"),
        operator=_pods(environ, "FLEETWRIGHT_OPERATOR_PODS"),
        denied_ranges=_networks(environ, "FLEETWRIGHT_DENIED_RANGES"),
        stated_ranges=_networks(environ, "FLEETWRIGHT_DENIED_RANGES"),
        api_server=_api_service(environ) if _switch(environ, _DENY_API_SERVER, base.deny_api_server) else frozenset(),
        deny_api_server=_switch(environ, _DENY_API_SERVER, base.deny_api_server),
        pod_annotations=_listed(environ, "FLEETWRIGHT_POD_ANNOTATIONS") or base.pod_annotations,
        cilium=_cilium(environ, "FLEETWRIGHT_CILIUM", base.cilium),
        ip_families=_families(environ, "POD_IPS", base.ip_families),
        identity=environ.get("POD_NAME", base.identity),
        lease_namespace=environ.get("POD_NAMESPACE", base.lease_namespace),
        lease_name=environ.get("FLEETWRIGHT_LEASE_NAME", base.lease_name),
        rollouts=int(_number(environ, "FLEETWRIGHT_ROLLOUTS", base.rollouts)),
        probes=int(_number(environ, "FLEETWRIGHT_PROBES", base.probes)),
        card_keys_name=environ.get("FLEETWRIGHT_CARD_KEYS_NAME", base.card_keys_name),
        card_rotation=_rotation(environ, "FLEETWRIGHT_CARD_KEY", base.card_rotation),
        key_set_url=environ.get("FLEETWRIGHT_KEY_SET_URL", base.key_set_url),
        approval_retention_seconds=_duration(
            environ, "FLEETWRIGHT_APPROVAL_RETENTION", base.approval_retention_seconds, least=_MINUTE
        ),
        gateway=_gateway(environ),
        workers=int(_number(environ, "FLEETWRIGHT_WORKERS", base.workers)),
        resync_seconds=_number(environ, "FLEETWRIGHT_RESYNC_SECONDS", base.resync_seconds),
        discovery_seconds=_number(environ, "FLEETWRIGHT_DISCOVERY_SECONDS", base.discovery_seconds),
        request_seconds=_number(environ, "FLEETWRIGHT_REQUEST_SECONDS", base.request_seconds),
        stalled_seconds=_number(environ, "FLEETWRIGHT_STALLED_SECONDS", base.stalled_seconds),
        retry_cap_seconds=_number(environ, "FLEETWRIGHT_RETRY_CAP_SECONDS", base.retry_cap_seconds),
        ops_port=int(_number(environ, "FLEETWRIGHT_OPS_PORT", base.ops_port)),
    )


def _listed(environ: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(text for text in environ.get(name, "").split(",") if text)


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(environ.get(name, default))
    except ValueError:
        raise ValueError(f"{name} must be a number, not {environ[name]!r}") from None
    if value <= 0:
        raise ValueError(f"{name} must be above zero")
    return value


def _rotation(environ: Mapping[str, str], name: str, base: Rotation) -> Rotation:
    ttl = _duration(environ, f"{name}_TTL", base.ttl, least=SHORTEST.ttl)
    overlap = _duration(environ, f"{name}_OVERLAP", base.overlap, least=SHORTEST.overlap)
    if overlap > ttl:
        raise ValueError(f"{name}_OVERLAP is {overlap}s and must not be longer than {name}_TTL, which is {ttl}s")
    return Rotation(ttl=ttl, overlap=overlap)


def _duration(environ: Mapping[str, str], name: str, default: int, *, least: int) -> int:
    try:
        seconds = durations.seconds(environ[name]) if name in environ else default
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    if seconds < least:
        raise ValueError(f"{name} is {environ[name]} and must be at least {least}s")
    return seconds


def _json(environ: Mapping[str, str], name: str, default: Mapping[str, Any]) -> Mapping[str, Any]:
    if name not in environ:
        return default
    try:
        value = json.loads(environ[name])
    except json.JSONDecodeError:
        value = None
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a JSON object")
    return value


def _pods(environ: Mapping[str, str], name: str) -> PodSelector | None:
    value = _json(environ, name, {})
    if not value:
        return None
    if set(value) - {"namespace", "labels"} or not value.get("namespace"):
        raise ValueError(f"{name} must be a JSON object with namespace and, optionally, labels")
    return PodSelector(namespace=value["namespace"], labels=value.get("labels", {}))


def _helper_pods(environ: Mapping[str, str], name: str) -> HelperPodDefaults:
    value = _json(environ, name, {})
    try:
        _check_helper_pods(value)
    except ValueError as error:
        raise ValueError(f"{name}.{error}") from None
    return HelperPodDefaults(
        resources=value.get("resources", {}),
        labels=value.get("labels", {}),
        annotations=value.get("annotations", {}),
        node_selector=value.get("nodeSelector", {}),
        tolerations=tuple(value.get("tolerations", ())),
        priority_class_name=value.get("priorityClassName", ""),
    )


def _check_helper_pods(value: Mapping[str, Any]) -> None:
    """Raise ValueError, which begins with a field, if the settings of helper pods are unusable."""
    for key, field in value.items():
        kind, words = _HELPER_FIELDS.get(key, (object, ""))
        if not words:
            raise ValueError(f"{key} cannot be set; allowed fields: {', '.join(_HELPER_FIELDS)}")
        if not isinstance(field, kind):
            raise ValueError(f"{key} must be {words}")
    for part in ("labels", "annotations", "nodeSelector"):
        for key, text in value.get(part, {}).items():
            if not isinstance(text, str):
                raise ValueError(f"{part}[{key}] must be a string; put {text!r} in quotes")
            if part != "nodeSelector" and key.startswith(names.OWN_PREFIXES):
                raise ValueError(f"{part}[{key}] is managed by the operator; remove it")
    if not all(isinstance(each, dict) for each in value.get("tolerations", ())):
        raise ValueError("tolerations must be a list of objects")
    _check_resources(value.get("resources", {}))


def _check_resources(resources: Mapping[str, Any]) -> None:
    """Raise ValueError if resources are not objects of requests and limits with quantities."""
    for part, values in resources.items():
        if part not in {"requests", "limits"}:
            raise ValueError(f"resources.{part} cannot be set; use requests and limits, each an object of quantities")
        if not isinstance(values, dict):
            raise ValueError(f"resources.{part} must be an object of quantities such as cpu: 100m")
        for name, quantity in values.items():
            try:
                parse_quantity(quantity)
            except ValueError:
                message = f"resources.{part}.{name} must be a quantity such as 100m or 64Mi, not {quantity!r}"
                raise ValueError(message) from None


def _gateway(environ: Mapping[str, str]) -> GatewayReference | None:
    url = environ.get("FLEETWRIGHT_GATEWAY_URL", "")
    if not url:
        return None
    if not url.startswith(("http://", "https://")) or url.endswith("/"):
        raise ValueError(f"FLEETWRIGHT_GATEWAY_URL must be an http or https URL without a path, not {url!r}")
    found = _pods(environ, "FLEETWRIGHT_GATEWAY_PODS")
    if found is None:
        raise ValueError("FLEETWRIGHT_GATEWAY_PODS is missing; it is required with FLEETWRIGHT_GATEWAY_URL")
    base = GatewayReference(url=url, pods=found)
    return GatewayReference(
        url=url,
        pods=found,
        public_url=environ.get("FLEETWRIGHT_GATEWAY_PUBLIC_URL", ""),
        keys_name=environ.get("FLEETWRIGHT_GATEWAY_KEYS_NAME", base.keys_name),
        rotation=_rotation(environ, "FLEETWRIGHT_GATEWAY_KEY", base.rotation),
    )


def _dns(environ: Mapping[str, str], name: str, base: Dns) -> Dns:
    return Dns(
        pods=_pods(environ, f"{name}_PODS") or base.pods,
        ports=_ports(environ, f"{name}_PORTS", base.ports),
        ranges=_networks(environ, f"{name}_CIDRS"),
    )


def _ports(environ: Mapping[str, str], name: str, default: tuple[int, ...]) -> tuple[int, ...]:
    try:
        found = tuple(int(text) for text in environ.get(name, "").split(",") if text)
    except ValueError:
        found = (0,)
    if not all(0 < port < 65536 for port in found):
        raise ValueError(f"{name} must be ports separated by commas, not {environ[name]!r}")
    return found or default


def _families(environ: Mapping[str, str], name: str, default: frozenset[int]) -> frozenset[int]:
    try:
        found = frozenset(ipaddress.ip_address(text).version for text in _listed(environ, name))
    except ValueError:
        raise ValueError(f"{name} must be addresses separated by commas, not {environ[name]!r}") from None
    return found or default


def _networks(environ: Mapping[str, str], name: str) -> tuple[Network, ...]:
    try:
        found = tuple(ipaddress.ip_network(text) for text in _listed(environ, name))
    except ValueError as error:
        raise ValueError(f"{name} must be ranges such as 203.0.113.0/24 separated by commas: {error}") from None
    if whole := next(filter(covers_all_public, found), None):
        raise ValueError(f"{name}: {whole} covers all public addresses; use a smaller range")
    return found


def _api_service(environ: Mapping[str, str]) -> frozenset[Endpoint]:
    """Return the address of the API server's Service from the environment of the pod.

    A host name is skipped: a name opens no private address in a policy.
    """
    try:
        ip = ipaddress.ip_address(environ["KUBERNETES_SERVICE_HOST"])
        return frozenset({(ip, int(environ["KUBERNETES_SERVICE_PORT"]))})
    except (KeyError, ValueError):
        return frozenset()


def _switch(environ: Mapping[str, str], name: str, default: bool) -> bool:
    value = environ.get(name, str(default).lower())
    if value not in {"true", "false"}:
        raise ValueError(f"{name} must be true or false, not {value!r}")
    return value == "true"


def _cilium(environ: Mapping[str, str], name: str, default: Cilium) -> Cilium:
    try:
        return Cilium(environ.get(name, default))
    except ValueError:
        raise ValueError(f"{name} must be one of {', '.join(Cilium)}, not {environ[name]!r}") from None


def _catalog(path: str | None) -> Catalog:
    if not path:
        return Catalog()
    try:
        return parse_catalog(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"FLEETWRIGHT_CATALOG_FILE cannot be used: {error}") from error
