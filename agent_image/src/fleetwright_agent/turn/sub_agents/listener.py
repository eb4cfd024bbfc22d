"""The interface for observers of finished sub-agent tasks, such as skill learning."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fleetwright_agent.protocol.frames import Frame, TurnRequest


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """The task of a sub-agent, and its answer."""

    request: TurnRequest
    """The request of the delegating turn, with the caller and the permission to remember."""
    sub_agent: str
    task: str
    answer: str
    """The complete answer, even if the agent received a truncated answer."""
    tools: tuple[str, ...]
    """The tools that returned without an error, without duplicates, in the order of their first success."""


class TaskListener(Protocol):
    """Called at most once for each task, after the answer is on disk. A crash at that moment loses the call.

    The turn waits for the listener, so the listener must be quick or work in the background. The exceptions of a
    listener are logged and otherwise ignored.
    """

    async def finished(self, task: FinishedTask, tell: Callable[[Frame], None]) -> None:
        """Args: `tell` emits a frame of the turn to its caller."""
        ...
