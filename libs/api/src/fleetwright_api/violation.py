"""The result of a check: a reason for programs, and a message for users that names the object and the remedy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    reason: str
    message: str
