"""Size limits of a task. Answers that are too long are truncated and marked. A full task accepts no further message.

Pure. Messages of callers are never truncated.
"""

from typing import Final, TypeVar

from a2a.types.a2a_pb2 import Artifact, Message, Role, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent

from fleetwright_a2a.extensions import TRUNCATED
from fleetwright_a2a.task_events import Event

MOST_OF_ARTIFACTS: Final = 4 * 1024 * 1024
"""The largest size of all artifacts of one task, in bytes."""
MOST_SAID: Final = 4 * 1024 * 1024
"""The largest size of all messages of the agent in one task, in bytes."""
MOST_OF_TASK: Final = 8 * 1024 * 1024
"""A task accepts no message that would make it larger than this, in bytes."""
MOST_MESSAGES: Final = 200
_NOTHING_LEFT: Final = "…"
Updated = TypeVar("Updated", TaskArtifactUpdateEvent, TaskStatusUpdateEvent)


def is_full(task: Task, message: Message) -> bool:
    """Return whether the task has no room for the message."""
    return len(task.history) >= MOST_MESSAGES or task.ByteSize() + message.ByteSize() > MOST_OF_TASK


class TaskSize:
    """The space that is left in one task for artifacts and for messages of the agent."""

    def __init__(self, task: Task, *, most: int = MOST_OF_ARTIFACTS, most_said: int = MOST_SAID) -> None:
        self._most = most
        self._sizes = {artifact.artifact_id: artifact.ByteSize() for artifact in task.artifacts}
        said = (*task.history, task.status.message)
        self._left = most_said - sum(each.ByteSize() for each in said if each.role == Role.ROLE_AGENT)

    def fit(self, event: Event) -> Event | None:
        """Return the event, truncated to the space that is left, or None if nothing of an appended piece fits."""
        if isinstance(event, TaskStatusUpdateEvent):
            return self._fit_said(event)
        return self._fit_artifact(event) if isinstance(event, TaskArtifactUpdateEvent) else event

    def _fit_said(self, event: TaskStatusUpdateEvent) -> Event:
        if event.status.message.ByteSize() > self._left:
            event = _copy(event)
            _cut(event.status.message, self._left)
            if not event.status.message.parts:
                event.status.message.parts.add().text = _NOTHING_LEFT
        self._left -= event.status.message.ByteSize()
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


def mark_cut(said: Artifact | Message) -> None:
    """Mark an artifact or a message as truncated."""
    said.metadata[TRUNCATED] = True
    if TRUNCATED not in said.extensions:
        said.extensions.append(TRUNCATED)
