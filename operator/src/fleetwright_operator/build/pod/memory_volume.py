"""The memory volume: a PersistentVolumeClaim (by default it outlives the Agent) or an `emptyDir`."""

from typing import Any

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_operator.build.manifest import Manifest, Owner, manifest
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir

DEFAULT_SIZE = "1Gi"


def memory_size(spec: AgentSpec) -> str:
    return DEFAULT_SIZE if spec.memory.storage.size is None else spec.memory.storage.size


def memory_claim(owner: Owner, spec: AgentSpec) -> Manifest | None:
    wanted = spec.memory.storage
    if wanted.ephemeral:
        return None
    claim: dict[str, Any] = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": memory_size(spec)}},
    }
    if wanted.storage_class_name is not None:
        claim["storageClassName"] = wanted.storage_class_name
    head = manifest(
        "v1",
        "PersistentVolumeClaim",
        name=names.agent_memory(owner.name),
        owner=owner,
        owned=not wanted.retain,
    )
    return {**head, "spec": claim}


def memory_volume(owner: Owner, spec: AgentSpec) -> dict[str, Any]:
    if spec.memory.storage.ephemeral:
        return empty_dir("memory", memory_size(spec))
    return {"name": "memory", "persistentVolumeClaim": {"claimName": names.agent_memory(owner.name)}}
