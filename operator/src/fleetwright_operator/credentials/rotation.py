"""How long a secret is used, and how long its predecessor stays valid."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Rotation:
    """Times in seconds."""

    ttl: int
    overlap: int


SHORTEST = Rotation(ttl=60, overlap=30)
"""The shortest allowed times. With shorter ones, even the fastest reader would still use an expired token."""
