"""What an agent remembers, as the runtime is told it: only what the spec says, and how much fits the volume."""

from typing import Any, Final

from fleetwright_operator import durations
from fleetwright_operator.desired.quantity import amount
from fleetwright_operator.desired.volume import storage
from fleetwright_operator.edges import Agent

_PART: Final = 0.8
"""Of the volume, where the spec says nothing: the rest is for files that are written anew."""
_LEAST: Final = 16 * 1024 * 1024
_SAME: Final = ("maxConversationsPerCaller", "sessions", "knowledge")


def memory_config(agent: Agent) -> dict[str, Any]:
    """Defaults are the runtime's own, of a volume of the size that is the default."""
    memory = agent["spec"].get("memory", {})
    retention = memory.get("conversationRetention")
    return {
        **({"conversationRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **{field: memory[field] for field in _SAME if field in memory},
        **_most_bytes(agent, memory.get("maxBytes")),
    }


def _most_bytes(agent: Agent, stated: str | None) -> dict[str, int]:
    if stated is not None:
        return {"maxBytes": int(amount(stated))}
    size = storage(agent).get("size")
    return {"maxBytes": max(_LEAST, int(amount(size) * _PART))} if size else {}
