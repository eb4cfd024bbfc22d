"""The streamed answer of a task: one artifact that grows by pieces and is replaced by the whole answer at the end.

Pieces that arrive within a tenth of a second are sent as one event. This module does not know the cost of an answer.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskArtifactUpdateEvent

FLUSH_SECONDS: Final = 0.1


class AnswerStream:
    def __init__(self, task_id: str, context_id: str, emit: Callable[[TaskArtifactUpdateEvent], None]) -> None:
        self._task_id = task_id
        self._artifact_id = f"{task_id}-answer"
        self._context_id = context_id
        self._emit = emit
        self._said: list[str] = []
        self._unsent: list[str] = []
        self._shown = False
        self._timer: asyncio.TimerHandle | None = None

    @property
    def said(self) -> str:
        """The whole text so far, including text that is not sent yet."""
        return "".join(self._said)

    def speak(self, text: str) -> None:
        """Add a piece of text. The first piece is sent at once, to keep the latency of the first token low."""
        self._said.append(text)
        self._unsent.append(text)
        if not self._shown:
            self.flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self.flush)

    def resume(self, task: Task) -> None:
        """Continue from the text that an earlier process has sent."""
        told = (artifact for artifact in task.artifacts if artifact.artifact_id == self._artifact_id)
        self._said = [part.text for artifact in told for part in artifact.parts]

    def flush(self) -> None:
        """Send the text that is not sent yet."""
        self.stop()
        text, self._unsent = "".join(self._unsent), []
        if text:
            # Merge the pieces into one string, because a model sends many short pieces.
            self._said = [self.said]
            self._emit(self._piece(text, append=self._shown))
            self._shown = True

    def stop(self) -> None:
        """Cancel the timer that flushes."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def take_back(self) -> None:
        """Discard the text so that the answer starts again, and tell the clients to discard it too."""
        self.stop()
        self._said, self._unsent = [], []
        if self._shown:
            self._emit(self._piece("", append=False))

    def whole(self, text: str) -> TaskArtifactUpdateEvent:
        """Return the event that replaces all pieces with the whole answer."""
        piece = self._piece(text, append=False)
        piece.last_chunk = True
        return piece

    def _piece(self, text: str, *, append: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self._task_id,
            context_id=self._context_id,
            artifact=Artifact(artifact_id=self._artifact_id, name="answer", parts=[Part(text=text)]),
            append=append,
        )
