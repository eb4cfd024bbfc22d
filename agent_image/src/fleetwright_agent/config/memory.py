"""What the agent remembers, for how long, and how much of it."""

from typing import Final

from pydantic import Field

from fleetwright_agent.config.part import Part

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


class Memory(Part):
    conversation_retention_seconds: int = Field(default=30 * _DAY, gt=0)
    """How long a conversation is kept that nobody goes on with; one with a task that runs or waits is."""
    max_conversations_per_caller: int = Field(default=1000, gt=0)
    """With more, those that were used longest ago go."""
    max_bytes: int = Field(default=858_993_459, ge=16 * 1024 * 1024)
    """Of everything in the volume: conversations make way, the oldest first; then no new task begins."""
    sessions: SessionMemory = SessionMemory()
    knowledge: KnowledgeMemory = KnowledgeMemory()
