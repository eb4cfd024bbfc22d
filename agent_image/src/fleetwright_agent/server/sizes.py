"""How large a task may grow: an answer without end is cut, and says so; a conversation without end goes on elsewhere.

Pure. Refuses: cutting what a caller said.
"""

from typing import Final

from a2a.types.a2a_pb2 import Message, Task, TaskArtifactUpdateEvent

from fleetwright_agent.extensions import TRUNCATED
from fleetwright_agent.server.events import Event

MOST_OF_ARTIFACTS: Final = 4 * 1024 * 1024
"""Bytes."""
MOST_OF_TASK: Final = 8 * 1024 * 1024
"""Bytes, from which on a task takes no further message."""
MOST_MESSAGES: Final = 200


def is_full(task: Task, message: Message) -> bool:
    """Whether the task takes no further message."""
    return len(task.history) >= MOST_MESSAGES or task.ByteSize() + message.ByteSize() > MOST_OF_TASK


class Room:
    """What the artifacts of one task hold, as they grow."""

    def __init__(self, task: Task, *, most: int = MOST_OF_ARTIFACTS) -> None:
        self._most = most
        self._sizes = {artifact.artifact_id: artifact.ByteSize() for artifact in task.artifacts}

    def fit(self, event: Event) -> Event | None:
        """The event, cut to the room there is; nothing where there is none."""
        if not isinstance(event, TaskArtifactUpdateEvent):
            return event
        identity = event.artifact.artifact_id
        kept = self._sizes.get(identity, 0) if event.append else 0
        room = self._most - kept - sum(size for each, size in self._sizes.items() if each != identity)
        if event.artifact.ByteSize() > room:
            cut = _cut(event, room)
            if not cut.artifact.parts and event.append:
                return None
            event = cut
        self._sizes[identity] = kept + event.artifact.ByteSize()
        return event


def _cut(event: TaskArtifactUpdateEvent, room: int) -> TaskArtifactUpdateEvent:
    cut = TaskArtifactUpdateEvent()
    cut.CopyFrom(event)
    del cut.artifact.parts[:]
    for part in event.artifact.parts:
        left = room - sum(each.ByteSize() for each in cut.artifact.parts)
        if part.ByteSize() <= left:
            cut.artifact.parts.append(part)
            continue
        if part.HasField("text") and left > 0:
            cut.artifact.parts.add().CopyFrom(part)
            cut.artifact.parts[-1].text = part.text.encode()[:left].decode(errors="ignore")
        break
    cut.artifact.metadata[TRUNCATED] = True
    cut.artifact.extensions.append(TRUNCATED)
    return cut
