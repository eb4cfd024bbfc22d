"""The storage of an agent's memory: a claim that by default outlives the Agent, or the pod's ephemeral storage."""

from typing import Any

from fleetwright_api import names
from fleetwright_api.call_authorization import Agent
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir

DEFAULT_SIZE = "1Gi"


def storage(agent: Agent) -> dict[str, Any]:
    return dict(agent["spec"].get("memory", {}).get("storage", {}))


def is_ephemeral(agent: Agent) -> bool:
    return bool(storage(agent).get("ephemeral", False))


def memory_claim(owner: Owner, agent: Agent) -> Manifest | None:
    wanted = storage(agent)
    if is_ephemeral(agent):
        return None
    spec: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": wanted.get("size", DEFAULT_SIZE)}},
    }
    if "storageClassName" in wanted:
        spec["storageClassName"] = wanted["storageClassName"]
    head = manifest(
        "v1",
        "PersistentVolumeClaim",
        name=names.agent_memory(owner.name),
        owner=owner,
        owned=not wanted.get("retain", True),
    )
    return {**head, "spec": spec}


def memory_volume(owner: Owner, agent: Agent) -> dict[str, Any]:
    if is_ephemeral(agent):
        return empty_dir("memory", storage(agent).get("size", DEFAULT_SIZE))
    return {"name": "memory", "persistentVolumeClaim": {"claimName": names.agent_memory(owner.name)}}
