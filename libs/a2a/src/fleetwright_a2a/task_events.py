"""The events of a task: functions that create them, apply them to the task, and join them.

Everything here is pure: this module reads no clock and creates no ids.
"""

from collections.abc import Sequence
from copy import deepcopy
from typing import Final, TypeVar

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)

from fleetwright_a2a.extensions import GOES_ON

Event = Message | TaskStatusUpdateEvent | TaskArtifactUpdateEvent
"""An event that is appended after the first record of a task: a later message, a status, or a piece of an artifact."""

Told = TypeVar("Told", bound=Event | Task)

TERMINAL = frozenset(
    {
        TaskState.TASK_STATE_COMPLETED,
        TaskState.TASK_STATE_FAILED,
        TaskState.TASK_STATE_CANCELED,
        TaskState.TASK_STATE_REJECTED,
    }
)
INTERRUPTED = frozenset({TaskState.TASK_STATE_INPUT_REQUIRED, TaskState.TASK_STATE_AUTH_REQUIRED})
RESTING = TERMINAL | INTERRUPTED

LEFT: Final = "restart"
"""The `reason` in the metadata of the last status message that an unfinished task gets before its process stops."""
_STATE_PREFIX = len("TASK_STATE_")


def state_word(state: TaskState) -> str:
    """Return the state in lower case, such as `working` or `input-required`, for people and metrics."""
    return str(TaskState.Name(state))[_STATE_PREFIX:].lower().replace("_", "-")


def status_event(
    task_id: str, context_id: str, state: TaskState, *, at_ns: int, message: Message | None = None
) -> TaskStatusUpdateEvent:
    """Return a status event; its message gets the ids of the task and its context."""
    event = TaskStatusUpdateEvent(task_id=task_id, context_id=context_id, status=TaskStatus(state=state))
    event.status.timestamp.FromNanoseconds(at_ns)
    if message is not None:
        event.status.message.CopyFrom(message)
        event.status.message.task_id = task_id
        event.status.message.context_id = context_id
    return event


def rests(told: Task | TaskStatusUpdateEvent) -> bool:
    """Return whether the task has ended or waits for its caller, and its work does not continue meanwhile."""
    return told.status.state in RESTING and GOES_ON not in told.metadata


def is_last(event: TaskStatusUpdateEvent) -> bool:
    """Return whether a stream ends with this event (`final` in 0.3 and 0.1).

    The stream ends if the task has ended or waits for its caller, or if the agent restarts.
    """
    said = event.status.message.metadata
    left = event.status.state == TaskState.TASK_STATE_WORKING and "reason" in said and said["reason"] == LEFT
    return left or rests(event)


def mark_going_on(told: Told) -> Told:
    """Mark an interrupted state whose work continues, so that a stream does not end with this state."""
    if isinstance(told, Task | TaskStatusUpdateEvent) and told.status.state in INTERRUPTED:
        told = deepcopy(told)
        told.metadata[GOES_ON] = True
    return told


def agent_message(text: str, *, message_id: str) -> Message:
    return Message(message_id=message_id, role=Role.ROLE_AGENT, parts=[Part(text=text)])


def fold(task: Task, event: Event) -> None:
    """Apply an event to the task."""
    if isinstance(event, Message):
        if task.status.HasField("message"):
            task.history.append(task.status.message)
            task.status.ClearField("message")
        task.history.append(event)
    elif isinstance(event, TaskStatusUpdateEvent):
        task.status.CopyFrom(event.status)
    else:
        _fold_artifact(task, event)


def _fold_artifact(task: Task, event: TaskArtifactUpdateEvent) -> None:
    known = next((a for a in task.artifacts if a.artifact_id == event.artifact.artifact_id), None)
    if known is None:
        task.artifacts.append(event.artifact)
    elif event.append:
        _extend(known, event.artifact)
    else:
        known.CopyFrom(event.artifact)


def _extend(known: Artifact, piece: Artifact) -> None:
    """Append a piece to an artifact. Text extends the last part, so that a long answer has one part, not a thousand."""
    for part in piece.parts:
        if known.parts and continues(known.parts[-1], part):
            known.parts[-1].text += part.text
        else:
            known.parts.append(part)
    if piece.HasField("metadata"):
        known.metadata.MergeFrom(piece.metadata)
    known.extensions.extend(uri for uri in piece.extensions if uri not in known.extensions)


def continues(last: Part, following: Part) -> bool:
    """Return whether the following part continues the text of the last one."""
    return (
        last.HasField("text")
        and following.HasField("text")
        and last.media_type == following.media_type
        and not last.HasField("metadata")
        and not following.HasField("metadata")
    )


def join(events: Sequence[Event]) -> list[Event]:
    """Merge consecutive pieces of one artifact into one event."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if (
            isinstance(event, TaskArtifactUpdateEvent)
            and isinstance(last, TaskArtifactUpdateEvent)
            and event.append
            and last.artifact.artifact_id == event.artifact.artifact_id
        ):
            merged = TaskArtifactUpdateEvent()
            merged.CopyFrom(last)
            _extend(merged.artifact, event.artifact)
            merged.last_chunk = event.last_chunk
            joined[-1] = merged
        else:
            joined.append(event)
    return joined


def catch_up(task: Task) -> list[Event]:
    """Return events for a reader that missed too many events: every artifact as a whole, then the status."""
    resting = task.status.state in RESTING
    events: list[Event] = [
        TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact, last_chunk=resting)
        for artifact in task.artifacts
    ]
    events.append(TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status))
    return events


def copy_of(task: Task) -> Task:
    copy = Task()
    copy.CopyFrom(task)
    return copy
