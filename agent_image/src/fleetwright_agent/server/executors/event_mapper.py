"""From frames to A2A events: the one place where the loop's words become the protocol's.

A task's answer is one artifact that grows while it is spoken and is said once more, whole, at the end, with what it
cost. Refuses: running anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Message, Role, Task, TaskState

from fleetwright_agent.clock import Clock
from fleetwright_agent.config.server import Extensions
from fleetwright_agent.protocol.extension_codec import attach, data_part, typed_part
from fleetwright_agent.protocol.extensions import COST, MODEL_FALLBACK, REASONING, TOOL_CALL
from fleetwright_agent.protocol.frames import (
    Ask,
    AskKind,
    Called,
    CompactionEnd,
    CompactionStart,
    Done,
    Fallback,
    Frame,
    Learned,
    PeerCost,
    Reasoning,
    Reset,
    Result,
    Text,
    ToolEnd,
    ToolStart,
    Usage,
    Waiting,
)
from fleetwright_agent.protocol.interrupts import ask_message
from fleetwright_agent.protocol.task_events import Event, agent_message, status_event
from fleetwright_agent.server.executors.answer import GrowingAnswer
from fleetwright_agent.server.executors.port import Emit, Job
from fleetwright_agent.server.extensions import Bill, cost, model_fallback, skill_artifact, tool_call
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.tasks.size_limits import mark_cut

_LONGEST_THOUGHT: Final = 16_000


class Telling:
    """What is told of one turn: progress while it runs, and its last events."""

    def __init__(
        self,
        job: Job,
        emit: Emit,
        *,
        clock: Clock,
        extensions: Extensions,
        compaction: LastCompaction,
        approval_seconds: int,
    ) -> None:
        self._told = extensions
        self._compaction = compaction
        self._approval_seconds = approval_seconds
        self._clock = clock
        self._job = job
        self._emit = emit
        self._started = clock.monotonic()
        self._bill = Bill(before=job.pause.cost if job.pause else None)
        self.owe = self._bill.add
        """Adds to what it costs. The bill's own: whoever keeps it for later must not keep the task alive with it."""
        self._spoken = GrowingAnswer(job.task_id, job.context_id, emit)
        self._thought = ""
        self._whole: str | None = None
        self._cut = False
        self._ask: Ask | None = None
        self._result: Result | None = None
        self._learned: list[Learned] = []

    def begin(self) -> None:
        """Its time is measured from here."""
        self._started = self._clock.monotonic()

    def works(self) -> None:
        self._emit(self._event(TaskState.TASK_STATE_WORKING))

    def resume(self, task: Task, used: Sequence[Usage | PeerCost | Called], *, seconds: float) -> None:
        """What another process has told of it, used for it, and the time that it took."""
        self._started = self._clock.monotonic() - seconds
        self._spoken.resume(task)
        for each in used:
            self.owe(each)

    def stop(self) -> None:
        """Nothing is told by itself any more."""
        self._spoken.stop()

    def over(self) -> Sequence[Event]:
        """The last events of a turn that was run to its end, or to an ask."""
        if self._ask is not None:
            self._spoken.flush()
            return [self._pause(self._ask)]
        return [*self._answer(success=True), *self._skills(), self._event(TaskState.TASK_STATE_COMPLETED)]

    def without_success(self, state: TaskState, sentence: str, about: Mapping[str, Any]) -> Sequence[Event]:
        """What was said tells the cost; where nothing was, the last words do (PA-052).

        Args: `about` says the same as the sentence, for programs.
        """
        answer = self._answer(success=False)
        message = agent_message(sentence, message_id=str(uuid4()))
        message.metadata.update(about)
        if not answer:
            attach(message, COST, self.cost(success=False), as_part=self._told.data_parts)
        return [*answer, self._event(state, message)]

    def cost(self, *, success: bool) -> dict[str, Any]:
        """Up to now, as cost-v1 has it."""
        duration = round((self._clock.monotonic() - self._started) * 1000)
        return cost(self._bill, duration_ms=duration, success=success)

    def used(self) -> dict[str, Any]:
        """The same for people who read logs, with how often what was called (PA-128)."""
        told = self.cost(success=True)
        usage = told.pop("usage")
        del told["success"]
        return {**usage, "modelCalls": 0, "toolCalls": 0, "models": [], **told}

    def tell(self, frame: Frame) -> None:
        if not isinstance(frame, Reasoning):
            self._think()
        match frame:
            case Reasoning(text):
                self._thought += text
            case Text(text):
                self._spoken.speak(text)
            case Reset():
                self._spoken.take_back()
            case Usage() | PeerCost() | Called():
                self.owe(frame)
            case Done(text, cut):
                self._whole, self._cut = text, cut
            case Ask():
                self._ask = frame
            case Result():
                self._result = frame
            case Learned():
                self._learned.append(frame)
            case ToolStart(name=name, call_id=call_id):
                self.owe(Called(call_id))
                self._progress(f"Calling {name}.", frame)
            case ToolEnd(name=name, ok=ok):
                self._progress(f"{name} {'answered' if ok else 'failed'}.", frame)
            case Fallback():
                self._progress("The model did not answer; another one goes on.", frame)
            case Waiting(sentence, seconds):
                self._progress(f"{sentence} It is asked again in {seconds:.0f} s.")
            case CompactionStart(tokens_before=tokens):
                self._progress(f"Compacting the conversation of {tokens} tokens.")
            case CompactionEnd():
                self._compacted(frame)

    def _progress(self, sentence: str, about: ToolStart | ToolEnd | Fallback | None = None) -> None:
        self._spoken.flush()
        message = agent_message(sentence, message_id=str(uuid4()))
        if isinstance(about, Fallback):
            if self._told.model_fallbacks:
                attach(message, MODEL_FALLBACK, model_fallback(about), as_part=self._told.data_parts)
        elif about is not None and self._told.tool_calls:
            attach(message, TOOL_CALL, tool_call(about), as_part=self._told.data_parts)
        self._emit(self._event(TaskState.TASK_STATE_WORKING, message))

    def _think(self) -> None:
        """One message for each run of thoughts: a message for each piece would be a thousand of them."""
        thought, self._thought = self._thought, ""
        if thought and self._told.reasoning:
            part = data_part(REASONING, {"text": thought[:_LONGEST_THOUGHT]})
            message = Message(message_id=str(uuid4()), role=Role.ROLE_AGENT, parts=[part])
            self._spoken.flush()
            self._emit(self._event(TaskState.TASK_STATE_WORKING, message))

    def _compacted(self, end: CompactionEnd) -> None:
        self._compaction.note(end, at_ns=self._clock.now_ns())
        change = f"{end.tokens_before} tokens before, {end.tokens_after} after"
        self._progress(f"Compaction {end.outcome}: {change}.")

    def _pause(self, ask: Ask) -> Event:
        """A question waits for as long as its caller likes; an approval only while what it allows is still wanted."""
        now = self._clock.now_ns()
        expires = now + self._approval_seconds * 1_000_000_000 if ask.kind is AskKind.APPROVAL else None
        message = ask_message(ask, message_id=str(uuid4()), expires_ns=expires)
        if self._bill:
            attach(message, COST, self.cost(success=True), as_part=self._told.data_parts)
        return self._event(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    def _answer(self, *, success: bool) -> list[Event]:
        """The whole answer and its cost; nothing where there is neither."""
        text = self._spoken.said if self._whole is None else self._whole
        if not (success or text or self._bill):
            return []
        piece = self._spoken.whole(text)
        if self._result is not None:
            piece.artifact.parts.append(typed_part(self._result.data, self._result.media_type))
        if self._cut:
            mark_cut(piece.artifact)
        attach(piece.artifact, COST, self.cost(success=success), as_part=self._told.data_parts)
        return [piece]

    def _skills(self) -> list[Event]:
        return [skill_artifact(self._job.task_id, self._job.context_id, learned) for learned in self._learned]

    def _event(self, state: TaskState, message: Message | None = None) -> Event:
        return status_event(self._job.task_id, self._job.context_id, state, at_ns=self._clock.now_ns(), message=message)
