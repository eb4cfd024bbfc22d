"""The result of a task of another agent that no tool call waits for."""

from dataclasses import dataclass

from fleetwright_agent.protocol.frames import Frame
from fleetwright_agent.storage.open_questions import DelegatedTask


@dataclass(frozen=True, slots=True)
class BackgroundResult:
    """The result of a task, or an error that says why it has no result."""

    task: DelegatedTask
    text: str
    ok: bool
    frames: tuple[Frame, ...] = ()
    """The costs that the agent has reported for the task."""
