"""Where something that is remembered comes from; it stands with it whenever a model sees it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Source:
    said_by: str
    """The owner in whose task it came up."""
    context_id: str
    task_id: str
