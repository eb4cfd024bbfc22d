"""The interface of a turn, which processes one message and emits frames. `frames.py` defines the frames."""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from fleetwright_agent.protocol.frames import Frame, PeerCost, TurnRequest, Usage


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnHooks:
    """Callbacks from a turn to its task, in addition to the frames."""

    opened: Callable[[], None] = lambda: None
    """Called when the turn starts, or resumes from state that an earlier process stored."""
    late: Callable[[Usage | PeerCost], None] = lambda _: None
    """Receives the usage of cancelled work after that work has ended, because its frames are no longer read."""
    left: Callable[[], bool] = lambda: False
    """Returns True if the work was cancelled and the next process will resume it."""


class Turn(Protocol):
    """Processes one message until it is answered or waits for a person. Cancelling the iteration cancels the work.

    Raises:
        TurnFailed: There is no answer; the failure is already classified.
    """

    def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]: ...

    async def aclose(self) -> None:
        """Close connections and files. Call this after the last turn has ended."""


NO_EDITS: Final = "this agent runs tool calls only with the arguments that it asked about; leave out arguments"


@runtime_checkable
class ChecksEdits(Protocol):
    """Part of a turn or of an executor that runs tool calls with the arguments of a person."""

    async def edit_problem(
        self, request: TurnRequest, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        """Return why the tool may not run with these arguments, as text for the person, or None if it may.

        Args:
            request: The caller, the conversation and the task of the call.
            untyped: True if texts may stand for values of other types. The schema of the tool then restores the types.
        """
