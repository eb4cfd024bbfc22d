"""The memory settings of the runtime: only what the spec sets, and a limit that fits the volume.

The audit trail is in the same volume and is never shrunk, so it may take at most half of the limit.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_api import durations
from fleetwright_api.call_authorization import Agent
from fleetwright_api.quantity import parse_quantity
from fleetwright_operator.build.pod.memory_volume import DEFAULT_SIZE, storage

_PART: Final = 0.8
"""The part of the volume that is used by default. The rest is for files that are rewritten."""
_LEAST: Final = 16 * 1024 * 1024
_TRAIL: Final = 50 * 1024 * 1024
"""The runtime's default limit of one audit file, in bytes."""
_SAME: Final = ("maxConversationsPerCaller", "sessions", "knowledge")
_TIMES: Final = ("interval", "halfLife")


def memory_config(agent: Agent) -> dict[str, Any]:
    """Return the memory section. The runtime has the defaults, for a volume of the default size."""
    memory = agent["spec"].get("memory", {})
    retention = memory.get("conversationRetention")
    return {
        **({"conversationRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **{field: memory[field] for field in _SAME if field in memory},
        **({"skills": _skills(memory["skills"])} if "skills" in memory else {}),
        **_max_memory_bytes(agent, memory.get("maxBytes")),
    }


def _skills(skills: Mapping[str, Any]) -> dict[str, Any]:
    if "curation" not in skills:
        return dict(skills)
    curation = dict(skills["curation"])
    times = {f"{field}Seconds": durations.seconds(curation.pop(field)) for field in _TIMES if field in curation}
    return {**skills, "curation": {**curation, **times}}


def _max_memory_bytes(agent: Agent, stated: str | None) -> dict[str, int]:
    return {"maxBytes": max_memory_bytes(agent)} if stated is not None or "size" in storage(agent) else {}


def max_memory_bytes(agent: Agent) -> int:
    """Return the limit of everything that the agent stores, including its audit trail, in bytes."""
    stated = agent["spec"].get("memory", {}).get("maxBytes")
    if stated is not None:
        return int(parse_quantity(stated))
    return max(_LEAST, int(parse_quantity(storage(agent).get("size", DEFAULT_SIZE)) * _PART))


def max_audit_bytes(agent: Agent) -> int:
    """Return the largest allowed `audit.maxBytes`. The trail has two files."""
    return max_memory_bytes(agent) // 4


def audit_config(agent: Agent) -> dict[str, Any]:
    """Return the audit section. Without an explicit size, the trail is reduced to fit the volume."""
    audit, most = agent["spec"].get("audit", {}), max_audit_bytes(agent)
    if "maxBytes" in audit or audit.get("mode") == "Off" or most >= _TRAIL:
        return dict(audit)
    return {**audit, "maxBytes": most}
