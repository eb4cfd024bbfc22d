"""From frames to A2A events: the one place where the loop's words become the protocol's.

A task's answer is one artifact that grows while it is spoken and is said once more, whole, at the end, with what it
cost. Refuses: knowing what produces the frames.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Artifact, Part, TaskArtifactUpdateEvent, TaskState

from fleetwright_agent.extensions import COST
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.events import Event, agent_message, status_event
from fleetwright_agent.server.extensions import Bill, call_path, cost, loop_refusal
from fleetwright_agent.server.turns import Turns
from fleetwright_agent.server.work import Emit, Job, Outcome
from fleetwright_agent.turn.frames import (
    CompactionEnd,
    CompactionStart,
    Done,
    Frame,
    PeerCost,
    Reset,
    Text,
    ToolEnd,
    ToolStart,
    TurnRequest,
    Usage,
)

FLUSH_SECONDS: Final = 0.1


@dataclass(slots=True)
class LastCompaction:
    """The newest compaction of this process, for the status page."""

    seen: dict[str, Any] | None = None


class FrameExecutor:
    def __init__(self, turns: Turns, *, myself: str, clock: Clock, compaction: LastCompaction) -> None:
        self.turns = turns
        self.myself = myself
        self.clock = clock
        self.compaction = compaction

    def begin(self, job: Job, emit: Emit) -> "FrameWork":
        return FrameWork(self, job, emit)


class FrameWork:
    """One turn, told as events."""

    def __init__(self, executor: FrameExecutor, job: Job, emit: Emit) -> None:
        self._executor = executor
        self._clock = executor.clock
        self._job = job
        self._emit = emit
        self._started = executor.clock.monotonic()
        self._bill = Bill()
        self._said = ""
        self._unsent = ""
        self._shown = False
        self._whole: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> Sequence[Event]:
        self._started = self._clock.monotonic()
        path = call_path(self._job.metadata)
        if refusal := loop_refusal(path, myself=self._executor.myself):
            return [self._status(TaskState.TASK_STATE_REJECTED, refusal, reason="call_path")]
        self._emit(self._status(TaskState.TASK_STATE_WORKING))
        turn = await self._executor.turns.get()
        try:
            async for frame in turn.run(self._request(path)):
                self._tell(frame)
        finally:
            self._stop_timer()
        return [*self._answer(success=True), self._status(TaskState.TASK_STATE_COMPLETED)]

    def cut(self, outcome: Outcome) -> Sequence[Event]:
        self._stop_timer()
        return [*self._answer(success=False), self._status(outcome.state, outcome.sentence, reason=outcome.reason)]

    def _request(self, path: tuple[str, ...]) -> TurnRequest:
        return TurnRequest(
            owner=self._job.owner,
            context_id=self._job.context_id,
            task_id=self._job.task_id,
            text="\n".join(part.text for part in self._job.message.parts if part.HasField("text")),
            call_path=path,
            metadata=self._job.metadata,
        )

    def _tell(self, frame: Frame) -> None:
        match frame:
            case Text(text):
                self._speak(text)
            case Reset():
                self._take_back()
            case Usage() | PeerCost():
                self._bill.add(frame)
            case Done(text):
                self._whole = text
            case ToolStart(name=name):
                self._progress(f"Calling {name}.")
            case ToolEnd(name=name, ok=ok):
                self._progress(f"{name} {'answered' if ok else 'failed'}.")
            case CompactionStart(tokens_before=tokens):
                self._progress(f"Compacting the conversation of {tokens} tokens.")
            case CompactionEnd():
                self._compacted(frame)

    def _speak(self, text: str) -> None:
        self._said += text
        self._unsent += text
        if not self._shown:
            self._flush()
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(FLUSH_SECONDS, self._flush)

    def _flush(self) -> None:
        self._stop_timer()
        text, self._unsent = self._unsent, ""
        if text:
            self._emit(self._piece(text, append=self._shown))
            self._shown = True

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _take_back(self) -> None:
        self._stop_timer()
        self._said = self._unsent = ""
        if self._shown:
            self._emit(self._piece("", append=False))

    def _progress(self, sentence: str) -> None:
        self._flush()
        self._emit(self._status(TaskState.TASK_STATE_WORKING, sentence))

    def _compacted(self, end: CompactionEnd) -> None:
        self._executor.compaction.seen = {
            "at": datetime.fromtimestamp(self._clock.now_ns() / 1e9, UTC).isoformat(timespec="seconds"),
            "outcome": end.outcome,
            "tokensBefore": end.tokens_before,
            "tokensAfter": end.tokens_after,
        }
        change = f"{end.tokens_before} tokens before, {end.tokens_after} after"
        self._progress(f"Compaction {end.outcome}: {change}.")

    def _piece(self, text: str, *, append: bool) -> TaskArtifactUpdateEvent:
        return TaskArtifactUpdateEvent(
            task_id=self._job.task_id,
            context_id=self._job.context_id,
            artifact=Artifact(artifact_id=f"{self._job.task_id}-answer", name="answer", parts=[Part(text=text)]),
            append=append,
        )

    def _answer(self, *, success: bool) -> list[Event]:
        """The whole answer and its cost; nothing where there is neither."""
        text = self._said if self._whole is None else self._whole
        if not (success or text or self._bill):
            return []
        piece = self._piece(text, append=False)
        piece.last_chunk = True
        piece.artifact.extensions.append(COST)
        duration = round((self._clock.monotonic() - self._started) * 1000)
        piece.artifact.metadata.update({COST: cost(self._bill, duration_ms=duration, success=success)})
        return [piece]

    def _status(self, state: TaskState, sentence: str = "", *, reason: str = "") -> Event:
        message = agent_message(sentence, message_id=str(uuid4())) if sentence else None
        if message is not None and reason:
            message.metadata["reason"] = reason
        return status_event(self._job.task_id, self._job.context_id, state, at_ns=self._clock.now_ns(), message=message)
