"""What an agent remembers, as the runtime is told it: only what the spec says, and how much fits the volume.

The audit trail lies in the same volume and never makes way, so it may have half of it at most.
"""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_operator.api import durations
from fleetwright_operator.api.call_authorization import Agent
from fleetwright_operator.api.quantity import amount
from fleetwright_operator.build.pod.memory_volume import DEFAULT_SIZE, storage

_PART: Final = 0.8
"""Of the volume, where the spec says nothing: the rest is for files that are written anew."""
_LEAST: Final = 16 * 1024 * 1024
_TRAIL: Final = 50 * 1024 * 1024
"""Of the trail's file, where nothing is said of it; the runtime's own."""
_SAME: Final = ("maxConversationsPerCaller", "sessions", "knowledge")
_TIMES: Final = ("interval", "halfLife")


def memory_config(agent: Agent) -> dict[str, Any]:
    """Defaults are the runtime's own, of a volume of the size that is the default."""
    memory = agent["spec"].get("memory", {})
    retention = memory.get("conversationRetention")
    return {
        **({"conversationRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **{field: memory[field] for field in _SAME if field in memory},
        **({"skills": _skills(memory["skills"])} if "skills" in memory else {}),
        **_most_bytes(agent, memory.get("maxBytes")),
    }


def _skills(skills: Mapping[str, Any]) -> dict[str, Any]:
    if "curation" not in skills:
        return dict(skills)
    curation = dict(skills["curation"])
    times = {f"{field}Seconds": durations.seconds(curation.pop(field)) for field in _TIMES if field in curation}
    return {**skills, "curation": {**curation, **times}}


def _most_bytes(agent: Agent, stated: str | None) -> dict[str, int]:
    return {"maxBytes": most_bytes(agent)} if stated is not None or "size" in storage(agent) else {}


def most_bytes(agent: Agent) -> int:
    """Of everything that the agent remembers, its trail included."""
    stated = agent["spec"].get("memory", {}).get("maxBytes")
    if stated is not None:
        return int(amount(stated))
    return max(_LEAST, int(amount(storage(agent).get("size", DEFAULT_SIZE)) * _PART))


def largest_trail(agent: Agent) -> int:
    """That `audit.maxBytes` may be: there are two files of it."""
    return most_bytes(agent) // 4


def audit_config(agent: Agent) -> dict[str, Any]:
    """A trail of which nothing is said is as small as the volume needs it."""
    audit, most = agent["spec"].get("audit", {}), largest_trail(agent)
    if "maxBytes" in audit or audit.get("mode") == "Off" or most >= _TRAIL:
        return dict(audit)
    return {**audit, "maxBytes": most}
