"""A call of a tool as it is remembered. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Made:
    name: str
    args: str
    """JSON."""
    result: str
    duration_ms: int | None
    """Nothing where the process that made it died before the turn went on."""
