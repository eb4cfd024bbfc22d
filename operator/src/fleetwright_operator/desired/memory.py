"""What an agent remembers, as the runtime is told it: only what the spec says, and how much fits the volume."""

from collections.abc import Mapping
from typing import Any, Final

from fleetwright_operator import durations
from fleetwright_operator.desired.quantity import amount
from fleetwright_operator.desired.volume import storage
from fleetwright_operator.edges import Agent

_PART: Final = 0.8
"""Of the volume, where the spec says nothing: the rest is for files that are written anew."""
_LEAST: Final = 16 * 1024 * 1024
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
    if stated is not None:
        return {"maxBytes": int(amount(stated))}
    size = storage(agent).get("size")
    return {"maxBytes": max(_LEAST, int(amount(size) * _PART))} if size else {}
