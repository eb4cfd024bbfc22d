"""An error that a check has found: a machine-readable reason, and a message that names the object and the remedy."""

from dataclasses import dataclass

from fleetwright_api.condition_reasons import ProblemReason


@dataclass(frozen=True, slots=True)
class Violation:
    reason: ProblemReason
    message: str
