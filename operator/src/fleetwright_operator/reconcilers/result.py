"""How a pass ended, and when the object wants to be looked at again if nothing happens before."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    settled: bool = True
    """Whether everything was written that should be; if not, a condition says why and a person may have to act."""
    refused: bool = False
    """Whether it is not settled for a refusal of the API server, which may think otherwise at any moment, unheard."""
    again_after: float | None = None
    """Seconds; None where only a change can give another answer."""
