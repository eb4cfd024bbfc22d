"""The interface of a turn: it runs one message and emits frames. The values are in `frames.py`."""

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from typing import Protocol

from fleetwright_agent.protocol.frames import Frame, PeerCost, TurnRequest, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHooks:
    """The calls of a turn to the task that it runs in, beside its frames."""

    opened: Callable[[], None] = lambda: None
    """Called when the turn starts, or resumes from state that an earlier process stored."""
    late: Callable[[Usage | PeerCost], None] = lambda _: None
    """Receives the usage of cancelled work after that work has ended, because its frames are no longer read."""
    left: Callable[[], bool] = lambda: False
    """Return True if the next process resumes work that was cancelled."""


class Turn(Protocol):
    """Runs one message until it is answered or pauses for a person. Cancelling the iteration cancels the work.

    Raises:
        TurnFailed: There is no answer; the failure is already classified.
    """

    def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]: ...

    async def aclose(self) -> None:
        """Close connections and files. Call this after the last turn has ended."""
