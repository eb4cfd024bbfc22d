"""From frames to A2A events: the one place where the loop's words become the protocol's.

A task's answer is one artifact that grows while it is spoken and is said once more, whole, at the end, with what it
cost. Refuses: knowing what produces the frames.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Message, Role, Task, TaskState
from google.protobuf.json_format import MessageToDict

from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.config.server import Extensions
from fleetwright_agent.extensions import (
    COST,
    INCOGNITO,
    LABELS,
    MODEL,
    MODEL_FALLBACK,
    REASONING,
    REASONING_EFFORT,
    SKILL_HINT,
    TOOL_CALL,
    trace_of,
)
from fleetwright_agent.memory.database import MemoryUnusable
from fleetwright_agent.server.activity import activity
from fleetwright_agent.server.answer import GrowingAnswer
from fleetwright_agent.server.clock import Clock
from fleetwright_agent.server.events import Event, agent_message, status_event
from fleetwright_agent.server.extensions import (
    Bill,
    call_path,
    cost,
    loop_refusal,
    model_fallback,
    skill_artifact,
    tool_call,
)
from fleetwright_agent.server.last_compaction import LastCompaction
from fleetwright_agent.server.messages import pictures_of, text_of
from fleetwright_agent.server.pauses import ask_message, reply_to
from fleetwright_agent.server.turns import Turns
from fleetwright_agent.server.work import Emit, Job, Outcome
from fleetwright_agent.telemetry.tracing import UNTOLD, Span, Tracing
from fleetwright_agent.turn.bills import Bills
from fleetwright_agent.turn.frames import (
    Ask,
    AskKind,
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
    TurnFailed,
    TurnRequest,
    Usage,
)
from fleetwright_agent.wires import attach, data_part, typed_part

_LONGEST_THOUGHT: Final = 16_000


class FrameExecutor:
    def __init__(
        self,
        turns: Turns,
        *,
        myself: str,
        clock: Clock,
        compaction: LastCompaction,
        approval_seconds: int = Approvals().expiry_seconds,
        extensions: Extensions = Extensions(),  # noqa: B008 - frozen
        tracing: Tracing = UNTOLD,
        bills: Bills | None = None,
    ) -> None:
        """Args: `bills` of turns whose process ended; without them nothing is known of those."""
        self._bills = bills
        self.tracing = tracing
        self.turns = turns
        self.myself = myself
        self.clock = clock
        self.compaction = compaction
        self.approval_seconds = approval_seconds
        self.extensions = extensions

    def begin(self, job: Job, emit: Emit) -> "FrameWork":
        if job.pause and self._bills:
            # Now, and not when its turn has come: a process may end before that. The turn itself says what is amiss.
            with suppress(MemoryUnusable):
                self._bills.open(job.owner, job.task_id)
        return FrameWork(self, job, emit)

    @property
    def recovers(self) -> bool:
        return self.turns.recovers

    def recover(self, job: Job, emit: Emit) -> "FrameWork | None":
        return FrameWork(self, job, emit, restarted=True) if self.recovers else None

    async def lost(self, job: Job, task: Task, outcome: Outcome, *, seconds: float) -> Sequence[Event]:
        """Raises: MemoryUnusable."""
        used = await self._bills.of(job.owner, job.task_id) if self._bills else []
        return FrameWork(self, job, lambda _: None).cut_after(task, used, outcome, seconds=seconds)


class FrameWork:
    """One turn, told as events."""

    def __init__(self, executor: FrameExecutor, job: Job, emit: Emit, *, restarted: bool = False) -> None:
        self._executor = executor
        self._told = executor.extensions
        self._restarted = restarted
        self._clock = executor.clock
        self._job = job
        self._emit = emit
        self._started = executor.clock.monotonic()
        self._bill = Bill(before=job.pause.cost if job.pause else None)
        self._spoken = GrowingAnswer(job.task_id, job.context_id, emit)
        self._thought = ""
        self._whole: str | None = None
        self._ask: Ask | None = None
        self._result: Result | None = None
        self._learned: list[Learned] = []

    async def run(self) -> Sequence[Event]:
        self._started = self._clock.monotonic()
        path = call_path(self._job.metadata)
        if refusal := loop_refusal(path, myself=self._executor.myself):
            return self._ended(TaskState.TASK_STATE_REJECTED, refusal, reason="call_path")
        self._emit(self._event(TaskState.TASK_STATE_WORKING))
        with self._span() as span:
            try:
                await self._turn(path)
            except BaseException as error:
                span.fail(error.reason if isinstance(error, TurnFailed) else type(error).__name__)
                raise
            usage = self._cost(success=True)["usage"]
            span.tell({f"gen_ai.usage.{name}": usage[name] for name in ("input_tokens", "output_tokens")})
        if self._ask is not None:
            self._spoken.flush()
            return [self._pause(self._ask)]
        return [*self._answer(success=True), *self._skills(), self._event(TaskState.TASK_STATE_COMPLETED)]

    def _span(self) -> AbstractContextManager[Span]:
        about = {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": self._executor.myself,
            "gen_ai.conversation.id": self._job.context_id,
            "fleetwright.task.id": self._job.task_id,
        }
        return self._executor.tracing.span(
            f"invoke_agent {self._executor.myself}", about, of=trace_of(self._job.metadata)
        )

    async def _turn(self, path: tuple[str, ...]) -> None:
        turn = await self._executor.turns.get()
        try:
            # Where a frame cannot be told the turn must not go on, and cost, unheard.
            async with aclosing(turn.run(self._request(path))) as frames:
                async for frame in frames:
                    self._job.pulse.beat(activity(frame))
                    self._tell(frame)
        finally:
            self._spoken.stop()

    def cut(self, outcome: Outcome) -> Sequence[Event]:
        self._spoken.stop()
        return self._ended(outcome.state, outcome.sentence, **_for_programs(outcome))

    def _ended(self, state: TaskState, sentence: str, **metadata: Any) -> Sequence[Event]:
        """Without success: what was said tells the cost; where nothing was, the last words do (PA-052)."""
        answer = self._answer(success=False)
        message = agent_message(sentence, message_id=str(uuid4()))
        message.metadata.update(metadata)
        if not answer:
            attach(message, COST, self._cost(success=False), as_part=self._told.data_parts)
        return [*answer, self._event(state, message)]

    def cut_after(
        self, task: Task, used: Sequence[Usage | PeerCost], outcome: Outcome, *, seconds: float
    ) -> Sequence[Event]:
        """The last events of a turn that another process has run: what is kept of it stands for what it was."""
        self._started = self._clock.monotonic() - seconds
        self._spoken.resume(task)
        for each in used:
            self._bill.add(each)
        return self.cut(outcome)

    def _request(self, path: tuple[str, ...]) -> TurnRequest:
        return TurnRequest(
            owner=self._job.owner,
            context_id=self._job.context_id,
            task_id=self._job.task_id,
            text=text_of(self._job.message),
            pictures=pictures_of(self._job.message),
            call_path=path,
            metadata=self._metadata(),
            reply=reply_to(self._job.pause, self._job.message) if self._job.pause else None,
            late=self._bill.add,
            left=self._job.pulse.is_left,
            restarted=self._restarted,
        )

    def _metadata(self) -> dict[str, Any]:
        """What the message says; some of it is said once, when the task begins."""
        former = self._job.former
        began = MessageToDict(former.history[0].metadata) if former and former.history else {}
        begun = _of(began, SKILL_HINT, MODEL, REASONING_EFFORT)
        return {**begun, **self._job.metadata, **_of(began, *LABELS, INCOGNITO)}

    def _tell(self, frame: Frame) -> None:
        if not isinstance(frame, Reasoning):
            self._think()
        match frame:
            case Reasoning(text):
                self._thought += text
            case Text(text):
                self._spoken.speak(text)
            case Reset():
                self._spoken.take_back()
            case Usage() | PeerCost():
                self._bill.add(frame)
            case Done(text):
                self._whole = text
            case Ask():
                self._ask = frame
            case Result():
                self._result = frame
            case Learned():
                self._learned.append(frame)
            case ToolStart(name=name):
                self._progress(f"Calling {name}.", frame)
            case ToolEnd(name=name, ok=ok):
                self._progress(f"{name} {'answered' if ok else 'failed'}.", frame)
            case Fallback():
                self._progress("The model did not answer; another one goes on.", frame)
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
        self._executor.compaction.note(end, at_ns=self._clock.now_ns())
        change = f"{end.tokens_before} tokens before, {end.tokens_after} after"
        self._progress(f"Compaction {end.outcome}: {change}.")

    def _pause(self, ask: Ask) -> Event:
        """A question waits for as long as its caller likes; an approval only while what it allows is still wanted."""
        now = self._clock.now_ns()
        expires = now + self._executor.approval_seconds * 1_000_000_000 if ask.kind is AskKind.APPROVAL else None
        message = ask_message(ask, message_id=str(uuid4()), expires_ns=expires)
        if self._bill:
            attach(message, COST, self._cost(success=True), as_part=self._told.data_parts)
        return self._event(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    def _cost(self, *, success: bool) -> dict[str, Any]:
        duration = round((self._clock.monotonic() - self._started) * 1000)
        return cost(self._bill, duration_ms=duration, success=success)

    def _answer(self, *, success: bool) -> list[Event]:
        """The whole answer and its cost; nothing where there is neither."""
        text = self._spoken.said if self._whole is None else self._whole
        if not (success or text or self._bill):
            return []
        piece = self._spoken.whole(text)
        if self._result is not None:
            piece.artifact.parts.append(typed_part(self._result.data, self._result.media_type))
        attach(piece.artifact, COST, self._cost(success=success), as_part=self._told.data_parts)
        return [piece]

    def _skills(self) -> list[Event]:
        return [skill_artifact(self._job.task_id, self._job.context_id, learned) for learned in self._learned]

    def _event(self, state: TaskState, message: Message | None = None) -> Event:
        return status_event(self._job.task_id, self._job.context_id, state, at_ns=self._clock.now_ns(), message=message)


def _of(metadata: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: metadata[key] for key in keys if key in metadata}


def _for_programs(outcome: Outcome) -> dict[str, Any]:
    return {**outcome.details, "reason": outcome.reason}
