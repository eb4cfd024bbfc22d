"""Whom the agent may give a part of its work to, within its own process."""

from typing import Final, Self

from pydantic import Field, model_validator

from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.model import OtherModel

DELEGATING: Final[frozenset[str]] = frozenset({"task", "task_batch"})
"""The tools that give work to sub-agents, who have neither."""


class SubAgent(Part):
    """It begins with its instructions and one task, knows nothing of the conversation, and only its answer comes back
    (PA-106).
    """

    name: DnsLabel
    description: str = Field(min_length=1, max_length=1024)
    """What the agent's model chooses it by."""
    instructions: str = Field(min_length=1)
    tools: tuple[str, ...] = ()
    """Of the agent's own, by the names that the model knows; none where it names none."""
    model: OtherModel | None = None
    """The agent's own where it names none."""
    max_model_calls: int = Field(default=30, gt=0, le=1000)
    """Replies of the model that one task may cause."""
    timeout_seconds: int = Field(default=300, gt=0)

    @model_validator(mode="after")
    def _delegates_nothing(self) -> Self:
        if named := sorted(DELEGATING & {*self.tools}):
            raise ValueError(f"tools of a sub-agent cannot have {named[0]}: it gives work to nobody")
        return self
