"""Who hears of a sub-agent's work that succeeded, such as whoever learns from it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from fleetwright_agent.protocol.frames import Frame, TurnRequest


@dataclass(frozen=True, slots=True)
class FinishedTask:
    """What was asked of a sub-agent, and what came of it."""

    request: TurnRequest
    """Of the turn that it was a part of: whose work this was, and whether it may be remembered."""
    sub_agent: str
    task: str
    answer: str
    """Whole, also where the agent was shown less of it."""
    tools: tuple[str, ...]
    """That answered without an error, each once, in the order in which they first did."""


class Listener(Protocol):
    """Told once the answer is on disk, at most once for each task: a process that dies at that moment tells nobody.

    What it raises is logged and harms nobody; the turn waits for it, so it is quick or does its work beside.
    """

    async def finished(self, task: FinishedTask, tell: Callable[[Frame], None]) -> None:
        """`tell` says a frame of the turn, to its caller."""
        ...
