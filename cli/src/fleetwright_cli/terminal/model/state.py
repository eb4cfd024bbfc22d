"""The state of a conversation. It keeps what is unfinished, and the newest tool calls. Pure.

Finished text is not part of the state, so an event costs the same in a long conversation as in a short one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from fleetwright_cli.terminal.model.values import (
    WAITING,
    ContextUse,
    PendingAsk,
    TaskCost,
    TaskPhase,
    TodoItem,
    ToolCard,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskProgress:
    """A task that has not ended."""

    task_id: str
    phase: TaskPhase = TaskPhase.SUBMITTED
    artifact_id: str = ""
    answer: str = ""
    """The text of the newest artifact."""
    cost: TaskCost | None = None
    text: str = ""
    """The user's message, while the task is queued."""
    truncated: bool = False
    files: frozenset[str] = frozenset()
    """The ids of the files that the user has seen. A snapshot repeats them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatState:
    context_id: str
    tasks: Mapping[str, TaskProgress] = field(default_factory=dict)
    """The tasks that have not ended, oldest first."""
    unsent: Mapping[str, str] = field(default_factory=dict)
    """Messages without a task yet, by message id. A queued message has a text, the others an empty one."""
    cards: tuple[ToolCard, ...] = ()
    """The newest tool calls."""
    calls: int = 0
    """The number of tool calls so far."""
    asks: tuple[PendingAsk, ...] = ()
    todos: tuple[TodoItem, ...] = ()
    spent: TaskCost = field(default_factory=TaskCost)
    """The cost of the tasks that have ended."""
    context: ContextUse | None = None
    connected: bool = True
    turns: int = 0

    @property
    def current(self) -> TaskProgress | None:
        """The task that works, or else the one that waits for a person."""
        working = [task for task in self.tasks.values() if task.phase not in WAITING]
        return next(iter(working), None) or next(iter(self.tasks.values()), None)

    @property
    def busy(self) -> bool:
        """True if a task works or a message is on its way."""
        return bool(self.unsent) or any(task.phase not in WAITING for task in self.tasks.values())

    @property
    def queued(self) -> tuple[str, ...]:
        """The texts of the messages that wait for their turn."""
        return tuple(text for text in (*(task.text for task in self.tasks.values()), *self.unsent.values()) if text)

    @property
    def cost(self) -> TaskCost:
        """The cost of the conversation since this client has joined it."""
        total = self.spent
        for task in self.tasks.values():
            if task.cost is not None:
                total = total.plus(task.cost)
        return total

    def card(self, number: int) -> ToolCard | None:
        return next((card for card in self.cards if card.number == number), None)
