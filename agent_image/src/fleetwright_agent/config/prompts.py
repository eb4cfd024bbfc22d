"""The configuration of the prompts that the agent sends to itself."""

from typing import Annotated, Final

from pydantic import Field, StringConstraints

from fleetwright_agent.config.base import Part

_MINUTE: Final = 60
_DAY: Final = 24 * 3600
PromptText = Annotated[str, StringConstraints(min_length=1, max_length=32768, pattern=r"\S")]


class IdlePrompt(Part):
    """A prompt for an agent that has nothing to do."""

    text: PromptText
    every_seconds: int = Field(default=600, ge=_MINUTE, le=_DAY)
    """The time since the end of the last task after which the prompt begins a task."""
