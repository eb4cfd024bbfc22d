"""The result of a reconcile, and when to reconcile the object again if no event comes before."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconcileResult:
    settled: bool = True
    """True if everything was written. If not, a condition explains why, and a user may have to act."""
    refused: bool = False
    """True if the API server rejected a write. It may accept the same write later without sending an event."""
    requeue_after: float | None = None
    """Seconds; None if only a change of an object can give another result."""
