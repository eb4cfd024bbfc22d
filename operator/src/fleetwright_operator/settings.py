"""What an installation decides, read once from the environment that the chart sets; frozen afterwards.

Refuses to guess: a value that cannot be used stops the operator with the name of the variable.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from fleetwright_operator.catalog import Catalog, parse_catalog

DEFAULT_AGENT_IMAGE = "docker.io/fleetwright/agent:0.1.0"
_AGENT_RESOURCES = {"requests": {"cpu": "50m", "memory": "192Mi"}, "limits": {"memory": "512Mi"}}
_SERVER_RESOURCES = {"requests": {"cpu": "10m", "memory": "64Mi"}, "limits": {"memory": "256Mi"}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PodsOf:
    """Pods of one namespace that carry all these labels; no labels: every pod there."""

    namespace: str
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    agent_image: str = DEFAULT_AGENT_IMAGE
    cluster_domain: str = "cluster.local"
    namespaces: tuple[str, ...] = ()
    """Where objects are looked after; empty means everywhere."""
    catalog: Catalog = field(default_factory=Catalog)
    agent_resources: Mapping[str, Any] = field(default_factory=lambda: _AGENT_RESOURCES)
    server_resources: Mapping[str, Any] = field(default_factory=lambda: _SERVER_RESOURCES)
    drain_seconds: int = 30
    dns: PodsOf = field(default_factory=lambda: PodsOf(namespace="kube-system", labels={"k8s-app": "kube-dns"}))
    monitoring: PodsOf | None = None
    """Who may scrape agents; unset: nobody."""
    operator: PodsOf | None = None
    """The operator's own pods, which read agents' :7871/status."""
    identity: str = "fleetwright-operator"
    """This process among those that want the Lease."""
    lease_namespace: str = "fleetwright-system"
    lease_name: str = "fleetwright-operator"
    workers: int = 8
    resync_seconds: float = 180.0
    ops_port: int = 8080


def settings_from(environ: Mapping[str, str]) -> Settings:
    """The settings of an environment.

    Raises:
        ValueError: A variable holds something unusable; the message names it.
    """
    base = Settings()
    return Settings(
        agent_image=environ.get("FLEETWRIGHT_AGENT_IMAGE", base.agent_image),
        cluster_domain=environ.get("FLEETWRIGHT_CLUSTER_DOMAIN", base.cluster_domain),
        namespaces=tuple(name for name in environ.get("FLEETWRIGHT_NAMESPACES", "").split(",") if name),
        catalog=_catalog(environ.get("FLEETWRIGHT_CATALOG_FILE")),
        agent_resources=_json(environ, "FLEETWRIGHT_AGENT_RESOURCES", base.agent_resources),
        server_resources=_json(environ, "FLEETWRIGHT_SERVER_RESOURCES", base.server_resources),
        drain_seconds=int(_number(environ, "FLEETWRIGHT_DRAIN_SECONDS", base.drain_seconds)),
        dns=_pods(environ, "FLEETWRIGHT_DNS_PODS") or base.dns,
        monitoring=_pods(environ, "FLEETWRIGHT_MONITORING_PODS"),
        operator=_pods(environ, "FLEETWRIGHT_OPERATOR_PODS"),
        identity=environ.get("POD_NAME", base.identity),
        lease_namespace=environ.get("POD_NAMESPACE", base.lease_namespace),
        lease_name=environ.get("FLEETWRIGHT_LEASE_NAME", base.lease_name),
        workers=int(_number(environ, "FLEETWRIGHT_WORKERS", base.workers)),
        resync_seconds=_number(environ, "FLEETWRIGHT_RESYNC_SECONDS", base.resync_seconds),
        ops_port=int(_number(environ, "FLEETWRIGHT_OPS_PORT", base.ops_port)),
    )


def _number(environ: Mapping[str, str], name: str, default: float) -> float:
    try:
        value = float(environ.get(name, default))
    except ValueError:
        raise ValueError(f"{name} must be a number, not {environ[name]!r}") from None
    if value <= 0:
        raise ValueError(f"{name} must be above zero")
    return value


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


def _pods(environ: Mapping[str, str], name: str) -> PodsOf | None:
    value = _json(environ, name, {})
    if not value:
        return None
    if set(value) - {"namespace", "labels"} or "namespace" not in value:
        raise ValueError(f"{name} must be a JSON object with namespace and, if wanted, labels")
    return PodsOf(namespace=value["namespace"], labels=value.get("labels", {}))


def _catalog(path: str | None) -> Catalog:
    if not path:
        return Catalog()
    try:
        return parse_catalog(yaml.safe_load(Path(path).read_text(encoding="utf-8")))
    except (OSError, yaml.YAMLError, ValueError) as error:
        raise ValueError(f"FLEETWRIGHT_CATALOG_FILE cannot be used: {error}") from error
