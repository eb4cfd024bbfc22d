"""The source of a remembered fact or skill; a model always sees both together."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Provenance:
    said_by: str
    """The owner in whose task it was stored."""
    context_id: str
    task_id: str
