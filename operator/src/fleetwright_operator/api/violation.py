"""What a check finds: a reason for programs and a sentence for people, with the name of the thing and the remedy."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Violation:
    reason: str
    message: str
