"""How long a secret is used, and for how long its predecessor is still good."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """In seconds."""

    ttl: int
    overlap: int


SHORTEST = Rotation(ttl=60, overlap=30)
"""Below that a reader who follows as fast as readers do would be refused."""
