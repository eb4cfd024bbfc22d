"""The memory settings of the runtime: the fields that the spec sets, and a limit that fits the volume.

The audit trail is in the same volume and is never shrunk. It may therefore take at most half of the limit.
"""

from dataclasses import replace
from typing import Any, Final

from fleetwright_api import durations
from fleetwright_api.quantity import parse_quantity
from fleetwright_api.spec.agent import AgentSpec
from fleetwright_api.spec.encoder import encode
from fleetwright_api.spec.memory import LearnedSkillsSpec, MemorySpec
from fleetwright_operator.build.pod.memory_volume import memory_size

_PART: Final = 0.8
"""The share of the volume that the memory may use by default.

The rest is for temporary copies when files are rewritten.
"""
_LEAST: Final = 16 * 1024 * 1024
_TRAIL: Final = 50 * 1024 * 1024
"""The runtime's default limit of one audit file, in bytes."""


def memory_config(spec: AgentSpec) -> dict[str, Any]:
    """Return the memory section. The runtime's defaults fit a volume of the default size."""
    memory = spec.memory
    retention, conversations = memory.conversation_retention, memory.max_conversations_per_caller
    return {
        **({"conversationRetentionSeconds": durations.seconds(retention)} if retention else {}),
        **({"maxConversationsPerCaller": conversations} if conversations is not None else {}),
        **({"sessions": encode(memory.sessions)} if memory.sessions is not None else {}),
        **({"knowledge": encode(memory.knowledge)} if memory.knowledge is not None else {}),
        **({"skills": _skills(memory.skills)} if memory.skills is not None else {}),
        **({"maxBytes": max_memory_bytes(spec)} if _limits_memory(memory) else {}),
    }


def _skills(skills: LearnedSkillsSpec) -> dict[str, Any]:
    section, curation = encode(skills), skills.curation
    if curation is None:
        return section
    times = {"intervalSeconds": curation.interval, "halfLifeSeconds": curation.half_life}
    return {
        **section,
        "curation": {
            **encode(replace(curation, interval=None, half_life=None)),
            **{field: durations.seconds(text) for field, text in times.items() if text is not None},
        },
    }


def _limits_memory(memory: MemorySpec) -> bool:
    return memory.max_bytes is not None or memory.storage.size is not None


def max_memory_bytes(spec: AgentSpec) -> int:
    """Return the limit of everything that the agent stores, including its audit trail, in bytes."""
    stated = spec.memory.max_bytes
    if stated is not None:
        return int(parse_quantity(stated))
    return max(_LEAST, int(parse_quantity(memory_size(spec)) * _PART))


def max_audit_bytes(spec: AgentSpec) -> int:
    """Return the largest allowed `audit.maxBytes`. The trail has two files."""
    return max_memory_bytes(spec) // 4


def audit_config(spec: AgentSpec) -> dict[str, Any]:
    """Return the audit section. Without an explicit size, the trail is reduced to fit the volume."""
    audit, most = spec.audit, max_audit_bytes(spec)
    if audit.max_bytes is not None or audit.mode == "Off" or most >= _TRAIL:
        return encode(audit)
    return encode(replace(audit, max_bytes=most))
