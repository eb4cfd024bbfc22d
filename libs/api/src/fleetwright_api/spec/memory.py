"""The storage and the limits of conversations, tasks and long-term memory.

The operator applies the defaults of `storage`. The runtime applies all other defaults.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StorageSpec:
    size: str | None = None
    storage_class_name: str | None = None
    retain: bool = True
    ephemeral: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionsSpec:
    enabled: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnowledgeSpec:
    enabled: bool | None = None
    hot: bool | None = None
    top_k: int | None = None
    max_facts_per_caller: int | None = None
    ingest: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CurationSpec:
    interval: str | None = None
    half_life: str | None = None
    prune_below: str | None = None
    merge_above: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnedSkillsSpec:
    enabled: bool | None = None
    sub_agents: tuple[str, ...] | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    max_skills_per_caller: int | None = None
    curation: CurationSpec | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySpec:
    storage: StorageSpec = StorageSpec()
    task_retention: str | None = None
    conversation_retention: str | None = None
    max_conversations_per_caller: int | None = None
    max_bytes: str | None = None
    sessions: SessionsSpec | None = None
    knowledge: KnowledgeSpec | None = None
    skills: LearnedSkillsSpec | None = None
