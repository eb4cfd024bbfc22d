"""Applies events to a task without keeping a copy of the text for each appended piece.

A protobuf message on upb frees earlier values of its fields only when the message itself is freed. Appending pieces
to a text field would therefore keep one copy of the text for each piece. The pieces are kept outside the message.
"""

from collections.abc import Iterable

from a2a.types.a2a_pb2 import Artifact, Task, TaskArtifactUpdateEvent, TaskState

from fleetwright_a2a.task_events import Event, continues, copy_of, fold


class GrowingTask:
    def __init__(self, task: Task) -> None:
        """Args: `task` is changed in place; the caller must not use it afterwards."""
        self._task = task
        self._pieces: dict[str, list[str]] = {}
        """For each artifact id, the pieces of text to append to the artifact's last part."""

    @property
    def task_id(self) -> str:
        return self._task.id

    @property
    def context_id(self) -> str:
        return self._task.context_id

    @property
    def state(self) -> TaskState:
        return self._task.status.state

    def fold(self, event: Event) -> None:
        """Apply an event to the task."""
        if isinstance(event, TaskArtifactUpdateEvent):
            identity = event.artifact.artifact_id
            if event.append and self._continues(event.artifact):
                self._pieces.setdefault(identity, []).append(event.artifact.parts[0].text)
                return
            pieces = self._pieces.pop(identity, ())
            if event.append and pieces:
                _append(self._task, identity, pieces)
        fold(self._task, event)

    def _continues(self, piece: Artifact) -> bool:
        """Return whether the piece contains only text that continues the last part of its artifact."""
        if len(piece.parts) != 1 or piece.HasField("metadata") or piece.extensions:
            return False
        known = _artifact(self._task, piece.artifact_id)
        return known is not None and bool(known.parts) and continues(known.parts[-1], piece.parts[0])

    def copy(self) -> Task:
        """Return a copy of the task as it is now."""
        copied = copy_of(self._task)
        for identity, pieces in self._pieces.items():
            _append(copied, identity, pieces)
        return copied

    def current(self) -> Task:
        """Return the task as it is now, for reading; a copy is made only if necessary."""
        return self.copy() if self._pieces else self._task


def replay(snapshot: Task, events: Iterable[Event]) -> Task:
    """Return the task that results from a snapshot and the events after it."""
    growing = GrowingTask(copy_of(snapshot))
    for event in events:
        growing.fold(event)
    return growing.current()


def _artifact(task: Task, identity: str) -> Artifact | None:
    return next((artifact for artifact in task.artifacts if artifact.artifact_id == identity), None)


def _append(task: Task, identity: str, pieces: Iterable[str]) -> None:
    if (known := _artifact(task, identity)) is not None:
        known.parts[-1].text += "".join(pieces)
