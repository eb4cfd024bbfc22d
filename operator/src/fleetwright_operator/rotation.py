"""How long a secret is used, and for how long its predecessor is still good."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """In seconds."""

    ttl: int
    overlap: int
