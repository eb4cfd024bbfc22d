"""The executor that runs a turn as the work of a task. It begins, resumes, ends or pauses the turn.

This module neither produces frames nor maps them to A2A events.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, aclosing, suppress
from typing import Any

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extensions import INCOGNITO, LABELS, MODEL, REASONING_EFFORT, SKILL_HINT, trace_of
from fleetwright_a2a.task_events import Event
from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.config.server import Extensions
from fleetwright_agent.protocol.frames import EarlierToolCall, PeerCost, TurnFailed, TurnRequest, Usage
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.server.executors.activity import activity
from fleetwright_agent.server.executors.event_mapper import EventMapper
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.extensions import call_path, loop_refusal, tokens_of
from fleetwright_agent.server.ops.last_compaction import LastCompaction
from fleetwright_agent.server.tasks.interrupt_replies import reply_to
from fleetwright_agent.server.tasks.messages import pictures_of, text_of
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.telemetry.tracing import UNTOLD, Span, Tracing
from fleetwright_agent.turn.cost.task_usage import TaskUsage


class TurnExecutor:
    def __init__(
        self,
        turns: TurnLoader,
        *,
        myself: str,
        clock: Clock,
        compaction: LastCompaction,
        approvals: Approvals = Approvals(),  # noqa: B008 - frozen
        extensions: Extensions = Extensions(),  # noqa: B008 - frozen
        tracing: Tracing = UNTOLD,
        usage: TaskUsage | None = None,
    ) -> None:
        """Args: `usage` stores the usage of tasks whose process has ended. Without it, their usage is unknown."""
        self._usage = usage
        self.tracing = tracing
        self.turns = turns
        self.myself = myself
        self._clock = clock
        self._compaction = compaction
        self._approvals = approvals
        self._extensions = extensions

    def begin(self, job: TaskJob, emit: Emit) -> "TurnWork":
        if job.pause and self._usage:
            # Open the usage now, because the process may end before the work starts. The turn itself reports errors.
            with suppress(MemoryUnusable):
                self._usage.open(job.owner, job.task_id)
        return TurnWork(self, job, emit)

    @property
    def recovers(self) -> bool:
        return self.turns.recovers

    def recover(self, job: TaskJob, emit: Emit) -> "TurnWork | None":
        if not self.recovers:
            return None
        job.pulse.decided.clear()
        return TurnWork(self, job, emit, restarted=True)

    async def lost(self, job: TaskJob, task: Task, outcome: Termination, *, seconds: float) -> Sequence[Event]:
        """Raises: MemoryUnusable."""
        used = await self._usage.of(job.owner, job.task_id) if self._usage else []
        return TurnWork(self, job, lambda _: None).cut_after(task, used, outcome, seconds=seconds)

    async def edit_problem(
        self, request: TurnRequest, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        return await self.turns.edit_problem(request, tool, arguments, untyped=untyped)

    def telling(self, job: TaskJob, emit: Emit) -> EventMapper:
        return EventMapper(
            job,
            emit,
            clock=self._clock,
            extensions=self._extensions,
            compaction=self._compaction,
            approvals=self._approvals,
        )


class TurnWork:
    """One turn for one message of a task."""

    def __init__(self, executor: TurnExecutor, job: TaskJob, emit: Emit, *, restarted: bool = False) -> None:
        self._executor = executor
        self._restarted = restarted
        self._job = job
        self._telling = executor.telling(job, emit)

    async def run(self) -> Sequence[Event]:
        self._telling.begin()
        path = call_path(self._job.metadata)
        if refusal := loop_refusal(path, myself=self._executor.myself):
            return self._telling.without_success(TaskState.TASK_STATE_REJECTED, refusal, {"reason": "call_path"})
        self._telling.works()
        with self._span() as span:
            try:
                await self._turn(path)
            except BaseException as error:
                span.fail(error.reason if isinstance(error, TurnFailed) else type(error).__name__)
                raise
            usage = self._telling.cost(success=True)["usage"]
            span.tell({f"gen_ai.usage.{name}": usage[name] for name in ("input_tokens", "output_tokens")})
        return self._telling.over()

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
            # If a frame cannot be mapped to an event, stop the turn: it would cost money without a result.
            async with aclosing(turn.run(self._request(path), self._hooks())) as frames:
                async for frame in frames:
                    self._job.pulse.beat(activity(frame))
                    self._telling.tell(frame)
        finally:
            self._telling.stop()

    def used(self) -> Mapping[str, Any]:
        return self._telling.used()

    def cut(self, outcome: Termination) -> Sequence[Event]:
        self._telling.stop()
        about = {**outcome.details, "reason": outcome.reason}
        return self._telling.without_success(outcome.state, outcome.sentence, about)

    def cut_after(
        self, task: Task, used: Sequence[Usage | PeerCost | EarlierToolCall], outcome: Termination, *, seconds: float
    ) -> Sequence[Event]:
        """Return the last events of a turn that another process ran. They are based on the stored task and usage."""
        self._telling.resume(task, used, seconds=seconds)
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
            prior_tokens=tokens_of(self._job.pause.cost) if self._job.pause else 0,
            restarted=self._restarted,
        )

    def _hooks(self) -> TurnHooks:
        pulse = self._job.pulse
        return TurnHooks(late=self._telling.owe, left=pulse.is_left, opened=pulse.decided.set)

    def _metadata(self) -> dict[str, Any]:
        """Return the metadata of the message, combined with the metadata of the first message of the task.

        The labels and `incognito` always come from the first message. The skill hint, the model and the reasoning
        effort come from the first message unless this message sets them.
        """
        began = self._job.first_metadata
        begun = _of(began, SKILL_HINT, MODEL, REASONING_EFFORT)
        return {**begun, **self._job.metadata, **_of(began, *LABELS, INCOGNITO)}


def _of(metadata: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: metadata[key] for key in keys if key in metadata}
