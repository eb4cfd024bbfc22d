"""The memory volume: a PersistentVolumeClaim (by default it outlives the Agent) or an `emptyDir`."""

from typing import Any

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentSpec, AgentView
from fleetwright_operator.build.manifest import Owner
from fleetwright_operator.build.pod.ephemeral_storage import empty_dir
from fleetwright_operator.build.volume_claim import ClaimRequest

DEFAULT_SIZE = "1Gi"


def memory_size(spec: AgentSpec) -> str:
    return DEFAULT_SIZE if spec.memory.storage.size is None else spec.memory.storage.size


def memory_request(agent: AgentView) -> ClaimRequest | None:
    """Return the volume claim that the spec asks for; None if the memory is ephemeral."""
    wanted = agent.spec.memory.storage
    if wanted.ephemeral:
        return None
    return ClaimRequest(
        field="spec.memory.storage",
        name=names.agent_memory(agent.name),
        size=memory_size(agent.spec),
        is_default_size=wanted.size is None,
        storage_class=wanted.storage_class_name,
        retain=wanted.retain,
    )


def memory_volume(owner: Owner, spec: AgentSpec) -> dict[str, Any]:
    if spec.memory.storage.ephemeral:
        return empty_dir("memory", memory_size(spec))
    return {"name": "memory", "persistentVolumeClaim": {"claimName": names.agent_memory(owner.name)}}
