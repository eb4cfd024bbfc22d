"""The source of a remembered fact or skill. A model never sees the fact or skill without its source."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    said_by: str
    """The owner of the task that stored the fact or skill."""
    context_id: str
    task_id: str
