"""The configuration of sub-agents, which run within the agent's process."""

from typing import Final, Self

from pydantic import Field, model_validator

from fleetwright_agent.config.base import DnsLabel, Part
from fleetwright_agent.config.model import OtherModel

DELEGATING: Final[frozenset[str]] = frozenset({"task", "task_batch"})
"""The tools that delegate work to sub-agents; sub-agents themselves do not get them."""


class SubAgent(Part):
    """A sub-agent starts with its instructions and one task. It sees no conversation, and returns only its answer."""

    name: DnsLabel
    description: str = Field(min_length=1, max_length=1024)
    """The description by which the agent's model selects it."""
    instructions: str = Field(min_length=1)
    tools: tuple[str, ...] = ()
    """Tools of the agent, by the names that the model sees; if empty, no tools."""
    model: OtherModel | None = None
    """The agent's own model if unset."""
    max_model_calls: int = Field(default=30, gt=0, le=1000)
    """Model calls that one task may cause."""
    timeout_seconds: int = Field(default=300, gt=0)

    @model_validator(mode="after")
    def _delegates_nothing(self) -> Self:
        if named := sorted(DELEGATING & {*self.tools}):
            raise ValueError(f"a sub-agent cannot have the tool {named[0]}: sub-agents do not delegate")
        return self
