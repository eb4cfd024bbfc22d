"""The mapping from the frames of a turn to A2A events.

The answer of a task is one artifact. It is streamed in pieces, and replaced at the end by the whole answer together
with its cost. This module does not run anything.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final
from uuid import uuid4

from a2a.types.a2a_pb2 import Artifact, Message, Role, Task, TaskState

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extension_codec import attach, data_part, typed_part
from fleetwright_a2a.extensions import (
    AGENT_INBOX,
    CONTEXT,
    COST,
    KAGENT_HITL,
    MODEL_FALLBACK,
    REASONING,
    TOOL_CALL,
    WORKSPACE_UNDO,
)
from fleetwright_a2a.task_events import Event, agent_message, status_event
from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.config.server import Extensions
from fleetwright_agent.protocol.context_changes import FilesRestored
from fleetwright_agent.protocol.frames import (
    CompactionEnd,
    CompactionStart,
    ContextReport,
    CutReason,
    EarlierToolCall,
    Fallback,
    Frame,
    InterruptKind,
    InterruptRequest,
    PeerCost,
    Reasoning,
    Result,
    RetryWait,
    SkillLearned,
    StreamReset,
    Text,
    ToolArtifact,
    ToolEnd,
    ToolOutput,
    ToolStart,
    TurnDone,
    Usage,
)
from fleetwright_agent.protocol.interrupts import ask_message
from fleetwright_agent.server.executors.answer import AnswerStream
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.server.extensions import (
    CostReport,
    context_size,
    cost,
    model_fallback,
    short_call,
    skill_artifact,
    tool_artifact,
    tool_call,
)
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.tasks.human_input.agent_inbox import inbox_interrupt
from fleetwright_agent.server.tasks.human_input.kagent import kagent_request
from fleetwright_agent.server.tasks.size_limits import mark_cut

_LONGEST_THOUGHT: Final = 16_000
_MOST_CALLS: Final = 100
_About = ToolStart | ToolEnd | ToolOutput | Fallback | ContextReport | CompactionStart | CompactionEnd


class EventMapper:
    """Maps the frames of one turn: emits its progress, and returns its last events."""

    def __init__(
        self,
        job: TaskJob,
        emit: Emit,
        *,
        clock: Clock,
        extensions: Extensions,
        compaction: LastCompaction,
        approvals: Approvals,
    ) -> None:
        self._told = extensions
        self._compaction = compaction
        self._approvals = approvals
        self._clock = clock
        self._job = job
        self._emit = emit
        self._started = clock.monotonic()
        self._bill = CostReport(before=job.pause.cost if job.pause else None)
        self.owe = self._bill.add
        """Adds to the cost of the turn. It is a method of the cost report, so that a reference to it does not keep this
        object and its task in memory."""
        self._spoken = AnswerStream(job.task_id, job.context_id, emit)
        self._thought = ""
        self._whole: str | None = None
        self._cut: CutReason | None = None
        self._ask: InterruptRequest | None = None
        self._result: Result | None = None
        self._restored: FilesRestored | None = None
        self._learned: list[SkillLearned] = []
        self._context: ContextReport | None = None
        self._compactions = 0
        self._calls: dict[str, dict[str, Any]] = {}
        """The latest tool calls, each with its last phase."""

    def begin(self) -> None:
        """Start measuring the duration of the turn."""
        self._started = self._clock.monotonic()

    def works(self) -> None:
        self._emit(self._event(TaskState.TASK_STATE_WORKING))

    def resume(self, task: Task, used: Sequence[Usage | PeerCost | EarlierToolCall], *, seconds: float) -> None:
        """Continue from the events, the usage and the duration of an earlier process."""
        self._started = self._clock.monotonic() - seconds
        self._spoken.resume(task)
        for each in used:
            self.owe(each)

    def stop(self) -> None:
        """Stop the timer that flushes the answer."""
        self._spoken.stop()

    def over(self) -> Sequence[Event]:
        """Return the last events of a turn that has ended or has asked a question."""
        if self._ask is not None:
            self._spoken.flush()
            return [self._pause(self._ask)]
        return [*self._answer(success=True), *self._skills(), self._event(TaskState.TASK_STATE_COMPLETED)]

    def without_success(self, state: TaskState, sentence: str, about: Mapping[str, Any]) -> Sequence[Event]:
        """Return the last events of a turn that did not succeed.

        The partial answer contains the cost. If there is no answer, the status message contains the cost.

        Args:
            sentence: The reason, for people.
            about: The reason, for programs.
        """
        answer = self._answer(success=False)
        message = agent_message(sentence, message_id=str(uuid4()))
        message.metadata.update(about)
        if not answer:
            attach(message, COST, self.cost(success=False), as_part=self._told.data_parts)
        return [*answer, self._event(state, message)]

    def cost(self, *, success: bool) -> dict[str, Any]:
        """Return the cost so far, as a cost-v1 payload."""
        duration = round((self._clock.monotonic() - self._started) * 1000)
        return cost(self._bill, duration_ms=duration, success=success)

    def used(self) -> dict[str, Any]:
        """Return the cost so far for a log line, with the number of model and tool calls."""
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
            case StreamReset():
                self._spoken.take_back()
            case Usage() | PeerCost() | EarlierToolCall():
                self.owe(frame)
            case ContextReport(prompt_tokens=tokens, window_tokens=window):
                self._context = frame
                if self._told.context:
                    self._progress(f"The prompt has {tokens} of {window} tokens.", frame)
            case TurnDone(text, cut):
                self._whole, self._cut = text, cut
            case InterruptRequest():
                self._ask = frame
            case Result():
                self._result = frame
            case FilesRestored():
                self._restored = frame
            case SkillLearned():
                self._learned.append(frame)
            case ToolStart(name=name, call_id=call_id):
                self.owe(EarlierToolCall(call_id))
                self._keep(frame)
                self._progress(f"Calling {name}.", frame)
            case ToolEnd(name=name, ok=ok):
                self._keep(frame)
                self._progress(f"{name} {'answered' if ok else 'failed'}.", frame)
            case ToolOutput(text=text):
                self._progress(text, frame)
            case ToolArtifact():
                self._spoken.flush()
                self._emit(
                    tool_artifact(self._job.task_id, self._job.context_id, frame, about_call=self._told.tool_calls)
                )
            case Fallback():
                self._progress("The model did not answer; another model continues.", frame)
            case RetryWait(sentence, seconds):
                self._progress(f"{sentence} It is called again in {seconds:.0f} s.")
            case CompactionStart(tokens_before=tokens):
                self._progress(f"Compacting the conversation of {tokens} tokens.", frame)
            case CompactionEnd():
                self._compacted(frame)

    def _progress(self, sentence: str, about: _About | None = None) -> None:
        self._spoken.flush()
        message = agent_message(sentence, message_id=str(uuid4()))
        if isinstance(about, ContextReport | CompactionStart | CompactionEnd):
            if self._told.context:
                attach(message, CONTEXT, self._context_size(about), as_part=self._told.data_parts)
        elif isinstance(about, Fallback):
            if self._told.model_fallbacks:
                attach(message, MODEL_FALLBACK, model_fallback(about), as_part=self._told.data_parts)
        elif about is not None and self._told.tool_calls:
            attach(message, TOOL_CALL, tool_call(about), as_part=self._told.data_parts)
        self._emit(self._event(TaskState.TASK_STATE_WORKING, message))

    def _think(self) -> None:
        """Emit the reasoning collected so far as one message, because it may arrive in thousands of pieces."""
        thought, self._thought = self._thought, ""
        if thought and self._told.reasoning:
            part = data_part(REASONING, {"text": thought[:_LONGEST_THOUGHT]})
            message = Message(message_id=str(uuid4()), role=Role.ROLE_AGENT, parts=[part])
            self._spoken.flush()
            self._emit(self._event(TaskState.TASK_STATE_WORKING, message))

    def _compacted(self, end: CompactionEnd) -> None:
        self._compaction.note(end, at_ns=self._clock.now_ns())
        change = f"{end.tokens_before} tokens before, {end.tokens_after} after"
        self._compactions += end.outcome == "ok"
        self._progress(f"Compaction {end.outcome}: {change}.", end)

    def _context_size(self, about: ContextReport | CompactionStart | CompactionEnd | None = None) -> dict[str, Any]:
        compaction = None if isinstance(about, ContextReport) else about
        return context_size(self._context, compactions=self._compactions, compaction=compaction)

    def _keep(self, frame: ToolStart | ToolEnd) -> None:
        """Keep a short form of a tool call, so that a client that reads the task later sees its calls."""
        known = self._calls.pop(frame.call_id, {})
        self._calls[frame.call_id] = {**known, **short_call(frame)}
        for oldest in list(self._calls)[:-_MOST_CALLS]:
            del self._calls[oldest]

    def _attach_context(self, to: Message | Artifact) -> None:
        """Attach the context to what the task keeps: the artifact of the answer, or a question."""
        if self._told.context and self._context is not None:
            calls = list(self._calls.values()) if self._told.tool_calls else []
            size = {**self._context_size(), **({"toolCalls": calls} if calls else {})}
            attach(to, CONTEXT, size, as_part=self._told.data_parts)

    def _pause(self, ask: InterruptRequest) -> Event:
        """Return the event that asks the caller. A request for approval expires; a question has no time limit."""
        now = self._clock.now_ns()
        expires, by = None, ""
        if ask.kind is InterruptKind.APPROVAL:
            expires, by = now + self._approvals.expiry_seconds * 1_000_000_000, self._approvals.deciders
        message = ask_message(ask, message_id=str(uuid4()), expires_ns=expires, by=by)
        earlier = self._job.former.history if self._job.former else ()
        requested = {uri for each in [self._job.message, *earlier] for uri in each.extensions}
        if KAGENT_HITL in requested:
            attach(message, KAGENT_HITL, kagent_request(ask))
        if AGENT_INBOX in requested:
            attach(message, AGENT_INBOX, inbox_interrupt(ask, by=by))
        if self._bill:
            attach(message, COST, self.cost(success=True), as_part=self._told.data_parts)
        self._attach_context(message)
        return self._event(TaskState.TASK_STATE_INPUT_REQUIRED, message)

    def _answer(self, *, success: bool) -> list[Event]:
        """Return the whole answer with its cost, or nothing if the turn failed without an answer and without cost."""
        text = self._spoken.said if self._whole is None else self._whole
        if not (success or text or self._bill):
            return []
        piece = self._spoken.whole(text)
        if self._result is not None:
            piece.artifact.parts.append(typed_part(self._result.data, self._result.media_type))
        if self._restored is not None:
            attach(piece.artifact, WORKSPACE_UNDO, self._restored.payload(), as_part=self._told.data_parts)
        if self._cut:
            mark_cut(piece.artifact, self._cut)
        attach(piece.artifact, COST, self.cost(success=success), as_part=self._told.data_parts)
        self._attach_context(piece.artifact)
        return [piece]

    def _skills(self) -> list[Event]:
        return [skill_artifact(self._job.task_id, self._job.context_id, learned) for learned in self._learned]

    def _event(self, state: TaskState, message: Message | None = None) -> Event:
        return status_event(self._job.task_id, self._job.context_id, state, at_ns=self._clock.now_ns(), message=message)
