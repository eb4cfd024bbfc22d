"""Size limits of a task. Answers that are too long are truncated and marked. A full task accepts no further message.

The task keeps only the status message with which it comes to rest: the question, or the reason of its end. All other
status messages pass: the next status replaces them. The log and slow readers keep passing messages until the task
rests, so a separate limit applies to them. They never take the space of the message that stays.

Pure. Messages of callers are never truncated.
"""

from typing import Final, TypeVar

from a2a.types.a2a_pb2 import Artifact, Message, Role, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

from fleetwright_a2a.extensions import TRUNCATED, TRUNCATED_REASON
from fleetwright_a2a.task_events import RESTING, Event

MOST_OF_ARTIFACTS: Final = 4 * 1024 * 1024
"""The largest size of all artifacts of one task, in bytes."""
MOST_SAID: Final = 4 * 1024 * 1024
"""The largest size of all messages of the agent that one task keeps, in bytes."""
RESERVED: Final = 1024 * 1024
"""The space for the message with which a task comes to rest, even if its history already has the largest size."""
MOST_PASSING: Final = 4 * 1024 * 1024
"""The largest size of all status messages that pass in one run, in bytes. Interrupted states have this limit for
themselves, so that progress never takes the space of a request for authorization."""
MOST_OF_TASK: Final = 8 * 1024 * 1024
"""A task accepts no message that would make it larger than this, in bytes."""
MOST_MESSAGES: Final = 200
_NOTHING_LEFT: Final = "…"
_SMALL_METADATA: Final = 1024
"""Metadata of this size stays in a passing message for which there is no space, because readers depend on it."""
_MARK: Final = 2 * len(TRUNCATED) + len(TRUNCATED_REASON) + 64
"""The size of the mark of a truncated message, in bytes."""
Updated = TypeVar("Updated", TaskArtifactUpdateEvent, TaskStatusUpdateEvent)


def is_full(task: Task, message: Message) -> bool:
    """Return whether the task has no room for the message."""
    return len(task.history) >= MOST_MESSAGES or task.ByteSize() + message.ByteSize() > MOST_OF_TASK


class TaskSize:
    """The space that is left in one task for artifacts and for messages of the agent, during one run."""

    def __init__(
        self,
        task: Task,
        *,
        most: int = MOST_OF_ARTIFACTS,
        most_said: int = MOST_SAID,
        reserved: int = RESERVED,
        most_passing: int = MOST_PASSING,
    ) -> None:
        self._most = most
        self._sizes = {artifact.artifact_id: artifact.ByteSize() for artifact in task.artifacts}
        kept = sum(each.ByteSize() for each in task.history if each.role == Role.ROLE_AGENT)
        self._for_last = max(most_said - kept, reserved)
        self._for_progress = self._for_interrupts = most_passing

    def fit(self, event: Event, *, is_last: bool = False) -> Event | None:
        """Return the event, truncated to the space that is left, or None if nothing of an appended piece fits.

        Args: `is_last` is true for the events with which the task comes to rest.
        """
        if isinstance(event, TaskArtifactUpdateEvent):
            return self._fit_artifact(event)
        if not isinstance(event, TaskStatusUpdateEvent):
            return event
        return _fit_status(event, self._for_last) if is_last else self._fit_passing(event)

    def _fit_passing(self, event: TaskStatusUpdateEvent) -> TaskStatusUpdateEvent:
        interrupts = event.status.state in RESTING
        left = self._for_interrupts if interrupts else self._for_progress
        event = _fit_status(event, left)
        message = event.status.message
        if message.ByteSize() > left and message.metadata.ByteSize() > _SMALL_METADATA:
            # The output of a tool call, for example, is also in the metadata.
            message.ClearField("metadata")
            message.ClearField("extensions")
            mark_cut(message)
        left = max(left - message.ByteSize(), 0)
        if interrupts:
            self._for_interrupts = left
        else:
            self._for_progress = left
        return event

    def _fit_artifact(self, event: TaskArtifactUpdateEvent) -> Event | None:
        identity = event.artifact.artifact_id
        kept = self._sizes.get(identity, 0) if event.append else 0
        room = self._most - kept - sum(size for each, size in self._sizes.items() if each != identity)
        if event.artifact.ByteSize() > room:
            event = _copy(event)
            _cut(event.artifact, room)
            if not event.artifact.parts and event.append:
                return None
        self._sizes[identity] = kept + event.artifact.ByteSize()
        return event


def _fit_status(event: TaskStatusUpdateEvent, room: int) -> TaskStatusUpdateEvent:
    """Return the event with a message whose parts fit. The metadata of the message stays."""
    if event.status.message.ByteSize() <= room:
        return event
    event = _copy(event)
    message = event.status.message
    around = message.ByteSize() - sum(part.ByteSize() for part in message.parts)
    _cut(message, room - around - _MARK)
    if not message.parts:
        message.parts.add().text = _NOTHING_LEFT
    return event


def _copy(event: Updated) -> Updated:
    copied = type(event)()
    copied.CopyFrom(event)
    return copied


def _cut(said: Artifact | Message, room: int) -> None:
    parts = [*said.parts]
    del said.parts[:]
    for part in parts:
        left = room - sum(each.ByteSize() for each in said.parts)
        if part.ByteSize() <= left:
            said.parts.append(part)
            continue
        if part.HasField("text") and left > 0:
            said.parts.append(part)
            said.parts[-1].text = part.text.encode()[:left].decode(errors="ignore")
        break
    mark_cut(said)


def mark_cut(said: Artifact | Message, reason: str = "size-limit") -> None:
    """Mark an artifact or a message as truncated."""
    said.metadata[TRUNCATED] = True
    said.metadata[TRUNCATED_REASON] = reason
    if TRUNCATED not in said.extensions:
        said.extensions.append(TRUNCATED)
