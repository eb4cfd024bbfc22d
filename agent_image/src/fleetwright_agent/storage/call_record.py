"""A tool call as memory stores it. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CallRecord:
    name: str
    args: str
    """The arguments as JSON."""
    result: str
    duration_ms: int | None
    """`None` if the process died between the call and the next step of the turn."""
