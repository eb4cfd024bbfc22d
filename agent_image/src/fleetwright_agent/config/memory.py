"""What the agent remembers, for how long, and how much of it."""

from decimal import Decimal
from typing import Final

from pydantic import Field

from fleetwright_agent.config.base import DnsLabel, Fraction, Part

_DAY: Final = 86_400


class SessionMemory(Part):
    enabled: bool = True
    """Whether a new conversation begins with what the caller's earlier ones were about."""


class KnowledgeMemory(Part):
    """Facts that callers asked the agent to remember; each caller has its own."""

    enabled: bool = False
    hot: bool = True
    """Whether facts may be kept that are given with every turn."""
    top_k: int = Field(default=5, ge=0, le=50)
    """Facts that fit the message and are given with it; none where it is 0."""
    max_facts_per_caller: int = Field(default=10_000, gt=0, le=1_000_000)
    ingest: tuple[str, ...] = ()
    """Tools whose results are kept as facts."""


class SkillCuration(Part):
    """Which learned skills stay, and how often that is looked at."""

    interval_seconds: int = Field(default=_DAY, ge=60)
    half_life_seconds: int = Field(default=90 * _DAY, ge=60)
    """Without use a skill has half of its strength left after so long."""
    prune_below: Decimal = Field(default=Decimal("0.2"), ge=0, lt=1)
    """What has less strength goes; nothing does where it is 0."""
    merge_above: Fraction = Decimal("0.6")
    """Of the words that two skills have together, the part that both have from which on they are one."""


class LearnedSkillMemory(Part):
    """How tasks were done that sub-agents completed; each caller has its own."""

    enabled: bool = False
    sub_agents: tuple[DnsLabel, ...] = ()
    """From whose work it is learned; from that of every sub-agent where none is named."""
    top_k: int = Field(default=5, ge=0, le=20)
    """Skills that fit the message and are given with it; none where it is 0."""
    max_tokens: int = Field(default=2000, ge=200, le=20_000)
    """Of all that are given with a message."""
    max_skills_per_caller: int = Field(default=200, gt=0, le=1000)
    """With more, the one that was used longest ago goes."""
    curation: SkillCuration = SkillCuration()


class Memory(Part):
    conversation_retention_seconds: int = Field(default=30 * _DAY, gt=0)
    """How long a conversation is kept that nobody goes on with; one with a task that runs or waits is."""
    max_conversations_per_caller: int = Field(default=1000, gt=0)
    """With more, those that were used longest ago go."""
    max_bytes: int = Field(default=858_993_459, ge=16 * 1024 * 1024)
    """Of everything in the volume: conversations make way, the oldest first; then no new task begins."""
    sessions: SessionMemory = SessionMemory()
    knowledge: KnowledgeMemory = KnowledgeMemory()
    skills: LearnedSkillMemory = LearnedSkillMemory()
