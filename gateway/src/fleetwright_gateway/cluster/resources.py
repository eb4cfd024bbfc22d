"""The resources that the gateway watches, and what its cache keeps of them. Pure."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec, parse_agent
from fleetwright_kube.cache import IndexKey
from fleetwright_kube.cached_object import CachedObject
from fleetwright_kube.port import Object, Resource
from fleetwright_kube.scheme import Scheme
from fleetwright_kube.timestamps import parse_timestamp

POD: Final = "Pod"
REPLICA_SET: Final = "ReplicaSetMetadata"
DEPLOYMENT: Final = "DeploymentMetadata"
NAMESPACE: Final = "NamespaceMetadata"
CARD: Final = "ConfigMap"
VIEW: Final = "view"
CLIENTS: Final = "clients"
MODIFIED: Final = "modified"
_MOST_CLIENTS: Final = 256
"""The largest number of entries of one agent that the gateway keeps. An agent has up to two tokens for each client."""
FIELD_MANAGER: Final = "fleetwright-gateway"
"""The field manager of the gateway's own writes, which are requests to wake an agent."""

AGENTS: Final = Resource(kind=names.AGENT, group=names.GROUP, version=names.VERSION, plural="agents")
PODS: Final = Resource(kind=POD, group="", version="v1", plural="pods", selector=names.OWN_OBJECTS)
REPLICA_SETS: Final = Resource(
    kind=REPLICA_SET,
    group="apps",
    version="v1",
    plural="replicasets",
    selector=names.OWN_OBJECTS,
    metadata_only=True,
)
DEPLOYMENTS: Final = Resource(
    kind=DEPLOYMENT,
    group="apps",
    version="v1",
    plural="deployments",
    selector=names.OWN_OBJECTS,
    metadata_only=True,
)
CONFIG_MAPS: Final = Resource(kind=CARD, group="", version="v1", plural="configmaps", selector=names.OWN_OBJECTS)
NAMESPACES: Final = Resource(
    kind=NAMESPACE, group="", version="v1", plural="namespaces", metadata_only=True, namespaced=False
)
WATCHED: Final = (AGENTS, PODS, REPLICA_SETS, DEPLOYMENTS, CONFIG_MAPS, NAMESPACES)
_GATEWAY_CARDS: Final = (
    names.GATEWAY_CARD_KEY,
    names.GATEWAY_INSIDE_CARD_KEY,
    names.GATEWAY_EXTENDED_CARD_KEY,
    names.GATEWAY_INSIDE_EXTENDED_CARD_KEY,
)
_PORTS: Final = ("a2a", "ops")
REQUIRED: Final = frozenset({names.AGENT, POD, REPLICA_SET, DEPLOYMENT, CARD})
"""The kinds without which no caller can be identified or served."""


@dataclass(frozen=True, slots=True)
class ListedClient:
    """An entry in an agent's list of clients."""

    name: str
    sha256: str
    expires: int | None
    """Seconds since the epoch; None if the token does not expire."""


def account_of(spec: AgentSpec, name: str) -> str:
    """Return the ServiceAccount of an agent's pods."""
    return name if spec.service_account_name is None else spec.service_account_name


def _agent(body: Object) -> Mapping[str, Any]:
    return {VIEW: parse_agent(body)}


def _pod(body: Object) -> Mapping[str, Any]:
    spec, status = body.get("spec", {}), body.get("status", {})
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )
    return {
        "account": spec.get("serviceAccountName") or "default",
        "hostNetwork": spec.get("hostNetwork") is True,
        "ip": status.get("podIP", ""),
        "phase": status.get("phase", ""),
        "ports": _ports(spec),
        "ready": ready,
    }


def _ports(spec: Mapping[str, Any]) -> Mapping[str, int]:
    listed = [port for container in spec.get("containers", ()) for port in container.get("ports", ())]
    # The first port of a name counts, because the agent's container comes before the sidecars of users.
    return {port["name"]: port["containerPort"] for port in reversed(listed) if port.get("name") in _PORTS}


def _config_map(body: Object) -> Mapping[str, Any]:
    """Keep cards and lists of clients. Other ConfigMaps of agents hold configuration that the gateway never needs."""
    data = body.get("data", {})
    texts = {key: data.get(key) for key in _GATEWAY_CARDS}
    document = _parsed(data.get(names.CARD_KEY))
    parsed = {
        "card": document if isinstance(document, dict) else None,
        CLIENTS: _clients(_parsed(data.get(names.CLIENTS_KEY))),
        MODIFIED: _modified(body["metadata"]) if texts[names.GATEWAY_CARD_KEY] else None,
    }
    return {key: found for key, found in (parsed | texts).items() if found}


def _modified(metadata: Mapping[str, Any]) -> int | None:
    """Return when an object was last written, in seconds since the epoch; None if it does not say so."""
    stated = [metadata.get("creationTimestamp"), *(each.get("time") for each in metadata.get("managedFields", ()))]
    try:
        return max((parse_timestamp(each) for each in stated if each), default=None)
    except ValueError:
        return None


def _parsed(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except (ValueError, RecursionError):
        return None


def _clients(document: Any) -> tuple[ListedClient, ...]:
    """Return the usable entries of a list of clients. The list is writable by users of the namespace."""
    listed = document.get("clients") if isinstance(document, dict) else None
    entries = listed[:_MOST_CLIENTS] if isinstance(listed, list) else []
    found = (_client(entry) for entry in entries if isinstance(entry, dict))
    return tuple(each for each in found if each is not None)


def _client(entry: Mapping[str, Any]) -> ListedClient | None:
    name, digest, expires = entry.get("name"), entry.get("sha256"), entry.get("expires")
    if not isinstance(name, str) or not isinstance(digest, str) or not isinstance(expires, str | None):
        return None
    try:
        return ListedClient(name, digest, None if expires is None else parse_timestamp(expires))
    except ValueError:
        return None


SCHEME: Final = Scheme(
    # Labels of managed objects name the operator's field manager. The gateway applies nothing.
    field_manager=names.FIELD_MANAGER,
    group=names.GROUP,
    hash_annotation=names.HASH_ANNOTATION,
    resources={resource.kind: resource for resource in WATCHED},
    projections={names.AGENT: _agent, POD: _pod, CARD: _config_map},
)


def index_keys(entry: CachedObject) -> Iterator[IndexKey]:
    """Yield the keys under which the cache finds an object: by controller, by ServiceAccount, and by client."""
    if entry.controller is not None and entry.kind in {POD, REPLICA_SET, DEPLOYMENT}:
        yield controlled_by(entry.kind, entry.controller.uid)
    if entry.kind == POD:
        yield with_account(POD, entry.namespace, entry.projection["account"])
    elif entry.kind == CARD:
        for client in entry.projection.get(CLIENTS, ()):
            yield with_client(client.sha256)
    elif entry.kind == names.AGENT:
        yield with_account(names.AGENT, entry.namespace, account_of(entry.projection[VIEW].spec, entry.name))


def controlled_by(kind: str, uid: str) -> IndexKey:
    return ("controller", kind, uid)


def with_account(kind: str, namespace: str, account: str) -> IndexKey:
    return ("account", kind, namespace, account)


def with_client(sha256: str) -> IndexKey:
    return ("client", sha256)
