"""The configuration of memory: what the agent remembers, for how long, and how much."""

from decimal import Decimal
from typing import Final

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Fraction, Part

_DAY: Final = 86_400


class SessionMemory(Part):
    enabled: bool = True
    """A new conversation starts with a summary of the caller's earlier conversations."""


class KnowledgeMemory(Part):
    """Facts that callers asked the agent to remember, separate for each caller."""

    enabled: bool = False
    hot: bool = True
    """Facts may be marked for inclusion in every turn."""
    top_k: int = Field(default=5, ge=0, le=50)
    """The number of matching facts that are added to the prompt of a message; 0 for none."""
    max_facts_per_caller: int = Field(default=10_000, gt=0, le=1_000_000)
    ingest: tuple[str, ...] = ()
    """Tools whose results are stored as facts."""


class SkillCuration(Part):
    """The rules by which learned skills are deleted and merged, and the interval between two runs."""

    interval_seconds: int = Field(default=_DAY, ge=60)
    half_life_seconds: int = Field(default=90 * _DAY, ge=60)
    """The time without use after which a skill has half of its strength left."""
    prune_below: Decimal = Field(default=Decimal("0.2"), ge=0, lt=1)
    """Skills below this strength are deleted; 0 keeps all."""
    merge_above: Fraction = Decimal("0.6")
    """Two skills are merged if they share at least this fraction of their combined words."""


class LearnedSkillMemory(Part):
    """Skills learned from completed tasks of sub-agents, separate for each caller."""

    enabled: bool = False
    sub_agents: tuple[DnsLabel, ...] = ()
    """The sub-agents to learn from; if empty, all."""
    top_k: int = Field(default=5, ge=0, le=20)
    """The number of matching skills that are added to the prompt of a message; 0 for none."""
    max_tokens: int = Field(default=2000, ge=200, le=20_000)
    """The token limit for all skills that are added to the prompt of a message."""
    max_skills_per_caller: int = Field(default=200, gt=0, le=1000)
    """Beyond this number, the least recently used skill is deleted."""
    curation: SkillCuration = SkillCuration()


class Memory(Part):
    conversation_retention_seconds: int = Field(default=30 * _DAY, gt=0)
    """The time for which an unused conversation is kept. While it has a running or waiting task, it is kept longer."""
    max_conversations_per_caller: int = Field(default=1000, gt=0)
    """Beyond this number, the least recently used conversations are deleted."""
    max_bytes: int = Field(default=858_993_459, ge=16 * 1024 * 1024)
    """The size limit of the whole volume. The oldest conversations are deleted first; then new tasks are rejected."""
    sessions: SessionMemory = SessionMemory()
    knowledge: KnowledgeMemory = KnowledgeMemory()
    skills: LearnedSkillMemory = LearnedSkillMemory()
