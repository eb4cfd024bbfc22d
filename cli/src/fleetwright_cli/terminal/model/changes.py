"""The changes that an event causes, in the order in which a view shows them. Pure."""

from dataclasses import dataclass

from fleetwright_cli.terminal.model.values import (
    ContextUse,
    PendingAsk,
    ReceivedFile,
    TaskCost,
    TaskPhase,
    TodoItem,
    ToolCard,
)


@dataclass(frozen=True, slots=True)
class UserMessageShown:
    """A message of the user has its turn now."""

    text: str


@dataclass(frozen=True, slots=True)
class MessageQueued:
    """A message waits until the tasks before it have ended."""

    text: str


@dataclass(frozen=True, slots=True)
class TextAdded:
    task_id: str
    text: str


@dataclass(frozen=True, slots=True)
class AnswerReplaced:
    """The text shown so far is not part of the answer. The new text follows."""

    task_id: str


@dataclass(frozen=True, slots=True)
class ToolChanged:
    card: ToolCard


@dataclass(frozen=True, slots=True)
class FileReceived:
    file: ReceivedFile


@dataclass(frozen=True, slots=True)
class AskOpened:
    ask: PendingAsk


@dataclass(frozen=True, slots=True)
class AskClosed:
    """An ask does not wait for this client any more."""

    ask: PendingAsk
    summary: str


@dataclass(frozen=True, slots=True)
class TodosChanged:
    todos: tuple[TodoItem, ...]


@dataclass(frozen=True, slots=True)
class NoteShown:
    """A sentence about the progress, such as a retry or a compaction."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningShown:
    text: str


@dataclass(frozen=True, slots=True)
class CostChanged:
    task_id: str
    cost: TaskCost


@dataclass(frozen=True, slots=True)
class ContextChanged:
    context: ContextUse


@dataclass(frozen=True, slots=True)
class PhaseChanged:
    task_id: str
    phase: TaskPhase
    text: str = ""
    """The reason, if a task ended without success."""
    truncated: bool = False


@dataclass(frozen=True, slots=True)
class ConnectionChanged:
    connected: bool
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SendRefused:
    text: str
    reason: str
    sent: bool = False
    """True if the agent has the message, but this client cannot follow its task."""


Change = (
    UserMessageShown
    | MessageQueued
    | TextAdded
    | AnswerReplaced
    | ToolChanged
    | FileReceived
    | AskOpened
    | AskClosed
    | TodosChanged
    | NoteShown
    | ReasoningShown
    | CostChanged
    | ContextChanged
    | PhaseChanged
    | ConnectionChanged
    | SendRefused
)
