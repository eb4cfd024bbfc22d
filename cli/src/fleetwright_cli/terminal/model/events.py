"""The events that change a conversation: decoded A2A events, and what this client itself did. Pure."""

from dataclasses import dataclass, field

from fleetwright_cli.terminal.model.values import ContextUse, PendingAsk, ReceivedFile, TaskCost, TaskPhase


@dataclass(frozen=True, slots=True)
class ToolEvent:
    call_id: str
    name: str
    phase: str
    """`started`, `output`, `completed` or `failed`."""
    text: str = ""
    """The arguments, the piece of output, the result or the error."""
    characters: int = 0
    parent: str = ""


@dataclass(frozen=True, slots=True)
class StatusEvent:
    """A status of a task, with everything that its message contains."""

    task_id: str
    context_id: str
    phase: TaskPhase
    text: str = ""
    tool: ToolEvent | None = None
    ask: PendingAsk | None = None
    cost: TaskCost | None = None
    fallback: tuple[str, str, str] | None = None
    """The model that failed, the model that continues, and the reason."""
    reasoning: str = ""
    context: ContextUse | None = None


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """A piece of the answer. If `append` is false, the text replaces the artifact so far."""

    task_id: str
    artifact_id: str
    text: str
    append: bool
    cost: TaskCost | None = None
    truncated: bool = False
    context: ContextUse | None = None


@dataclass(frozen=True, slots=True)
class FileEvent:
    task_id: str
    file: ReceivedFile


@dataclass(frozen=True, slots=True)
class SnapshotEvent:
    """A whole task: the first event of a stream, or the answer of GetTask."""

    status: StatusEvent
    answers: tuple[AnswerEvent, ...] = ()
    files: tuple[ReceivedFile, ...] = ()
    history: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Role and text of each message."""
    calls: tuple[ToolEvent, ...] = ()
    """The latest tool calls of the task."""
    undoes: str = ""
    """The id of the task whose file changes this task undoes; empty for other tasks."""
    names: str = ""
    """The title that this task gives to its conversation; empty for other tasks."""
    title: str = ""
    """The title of the conversation, if the agent has listed the task with it."""
    forked_from: tuple[str, str] | None = None
    """The conversation with whose history that of this task begins, and the last of its tasks, if one is named."""


@dataclass(frozen=True, slots=True)
class CallsRecalled:
    """The tool calls of a task that has ended before this client joined."""

    task_id: str
    calls: tuple[ToolEvent, ...]


@dataclass(frozen=True, slots=True)
class MessageSent:
    """The user has sent a message that starts a task."""

    message_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TaskAccepted:
    """The agent has created a task for a message."""

    message_id: str
    task_id: str


@dataclass(frozen=True, slots=True)
class SendFailed:
    """The agent has refused a message or a subscription, or is not reachable."""

    message_id: str
    reason: str
    task_id: str = ""
    """The task that this client does not follow any more, if the agent has accepted the message."""


@dataclass(frozen=True, slots=True)
class AskAnswered:
    """The user has answered an ask."""

    ask: PendingAsk
    summary: str


@dataclass(frozen=True, slots=True)
class ConnectionEvent:
    """The connection was lost, or it is back."""

    connected: bool
    reason: str = ""


ChatEvent = (
    StatusEvent
    | AnswerEvent
    | FileEvent
    | SnapshotEvent
    | CallsRecalled
    | MessageSent
    | TaskAccepted
    | SendFailed
    | AskAnswered
    | ConnectionEvent
)
