"""A cache with many agents, each with the objects that the gateway watches."""

import itertools
import json
from collections.abc import Iterator

from tests.support.gateway.served_gateway import CARD

from fleetwright_api import names
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_kube.port import Object

NAMESPACES = 100


def fill(fleet: Fleet, many: int) -> None:
    """Add agents with all their objects."""
    versions = itertools.count(1)
    for number in range(many):
        for kind, body in _objects(f"team-{number % NAMESPACES}", f"agent-{number}"):
            body["metadata"]["resourceVersion"] = str(next(versions))
            change = fleet.cache.put(kind, body)
            if change is not None:
                fleet.on_change(change)


def _objects(namespace: str, name: str) -> Iterator[tuple[str, Object]]:
    def metadata(kind: str, child: str, owner: tuple[str, str] | None) -> Object:
        found: Object = {
            "namespace": namespace,
            "name": child,
            "uid": f"{kind}-{name}",
            "labels": {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: name},
        }
        if owner is not None:
            above, owner_name = owner
            reference = {"kind": above, "name": owner_name, "uid": f"{above}-{name}", "controller": True}
            found["ownerReferences"] = [reference]
        return found

    spec = {"description": f"The agent {name}.", "model": {"name": "m"}, "fleet": {"reach": "Direct"}}
    status = {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]}
    text = json.dumps({**CARD, "name": name})
    card = dict.fromkeys((names.CARD_KEY, names.GATEWAY_CARD_KEY, names.GATEWAY_INSIDE_CARD_KEY), text)
    replica_set = ("ReplicaSet", f"{name}-1")
    yield "Agent", {"metadata": metadata("Agent", name, None), "spec": spec, "status": {"phase": "Running"}}
    yield "DeploymentMetadata", {"metadata": metadata("Deployment", name, ("Agent", name))}
    yield "ReplicaSetMetadata", {"metadata": metadata("ReplicaSet", replica_set[1], ("Deployment", name))}
    yield "Pod", {"metadata": metadata("Pod", f"{name}-1-a", replica_set), "spec": {}, "status": status}
    yield "ConfigMap", {"metadata": metadata("ConfigMap", names.agent_card(name), ("Agent", name)), "data": card}
