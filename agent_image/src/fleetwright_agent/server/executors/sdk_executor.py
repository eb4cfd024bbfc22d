"""An adapter that runs any `AgentExecutor` of the a2a-sdk. Events that the executor enqueues become task events.

The rules of the SDK apply. An executor enqueues either a task with status and artifact updates, or a single message and
nothing else. A single message ends the task that this server created. The task is marked, so that the caller receives
the message instead of the task. Events of other tasks are errors. Events after the end of the task are dropped.
"""

import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from a2a.auth.user import User
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.context import ServerCallContext
from a2a.server.events import EventQueue
from a2a.types.a2a_pb2 import (
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatusUpdateEvent,
)
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import DecodeError

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extensions import DIRECT_REPLY
from fleetwright_a2a.proto_validation import holds_json
from fleetwright_a2a.task_events import INTERRUPTED, TERMINAL, Event, status_event
from fleetwright_agent.config.approvals import Approvals
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.protocol.interrupts import complete_approval
from fleetwright_agent.protocol.termination_reasons import Termination, terminal_status
from fleetwright_agent.protocol.turn import NO_EDITS
from fleetwright_agent.server.executors.port import Emit, TaskJob

_logger = logging.getLogger(__name__)

_SUBMITTED = TaskState.TASK_STATE_SUBMITTED


@dataclass(frozen=True, slots=True)
class _Caller(User):
    owner: str

    @property
    def is_authenticated(self) -> bool:
        return True

    @property
    def user_name(self) -> str:
        return self.owner


@runtime_checkable
class EditableExecutor(Protocol):
    """An `AgentExecutor` that asks for approvals, and that runs calls with the arguments of a person."""

    async def edit_problem(self, task_id: str, tool: str, arguments: Mapping[str, Any]) -> str | None:
        """Return why the tool may not run with these arguments, as text for the person, or None if it may."""


class SdkExecutor:
    """An `AgentExecutor` with the runtime's executor interface."""

    def __init__(self, executor: AgentExecutor, *, clock: Clock, approvals: Approvals) -> None:
        self.executor = executor
        self.clock = clock
        self.approvals = approvals

    async def edit_problem(
        self, request: TurnRequest, tool: str, arguments: Mapping[str, Any], *, untyped: bool = False
    ) -> str | None:
        if untyped or not isinstance(self.executor, EditableExecutor):
            return NO_EDITS  # The runtime has no schema from which it could restore the types.
        try:
            return await self.executor.edit_problem(request.task_id, tool, arguments)
        except Exception:
            _logger.exception("the executor failed to check edited arguments", extra={"task": request.task_id})
            return "the executor could not check the arguments"

    def begin(self, job: TaskJob, emit: Emit) -> "SdkWork":
        return SdkWork(self, job, emit)


class SdkWork:
    """The work on one message, done by an `AgentExecutor`."""

    def __init__(self, foreign: SdkExecutor, job: TaskJob, emit: Emit) -> None:
        self._executor = foreign.executor
        self._clock = foreign.clock
        self._job = job
        self._events = _Events(job, emit, clock=foreign.clock, approvals=foreign.approvals)
        configuration = SendMessageConfiguration(accepted_output_modes=job.accepted)
        request = SendMessageRequest(message=job.message, configuration=configuration)
        request.metadata.update(job.metadata)
        self._context = RequestContext(
            ServerCallContext(user=_Caller(job.owner), requested_extensions=set(job.requested)),
            request,
            task_id=job.task_id,
            context_id=job.context_id,
            task=job.former,
        )

    async def run(self) -> Sequence[Event]:
        try:
            await self._executor.execute(self._context, self._events)
        except BaseException:
            # The work was cancelled, timed out or failed. The executor's own `cancel` must release its resources.
            with suppress(Exception):
                await self._executor.cancel(self._context, self._events)
            raise
        if reply := self._events.reply:
            return [self._replied(reply)]
        return [self._events.last] if self._events.last else []

    def cut(self, outcome: Termination) -> Sequence[Event]:
        last = self._events.last
        if last is not None and last.status.state in (outcome.state, TaskState.TASK_STATE_COMPLETED):
            return [last]
        task = Task(id=self._job.task_id, context_id=self._job.context_id)
        return [terminal_status(task, outcome, at_ns=self._clock.now_ns())]

    def _replied(self, reply: Message) -> Event:
        said = Message()
        said.CopyFrom(reply)
        said.metadata[DIRECT_REPLY] = True
        return status_event(
            self._job.task_id,
            self._job.context_id,
            TaskState.TASK_STATE_COMPLETED,
            at_ns=self._clock.now_ns(),
            message=said,
        )


def _check_tellable(event: Event | Task) -> None:
    """Check that an event can be stored and sent. Only events with free-form JSON can fail the check.

    Raises: ValueError.
    """
    if not holds_json(event):
        return
    try:
        type(event).FromString(event.SerializeToString())
        MessageToDict(event)
    except (DecodeError, ValueError):
        raise ValueError("an event contains a number that JSON cannot represent, or is nested too deeply") from None


class _Events(EventQueue):
    """The executor's event queue. Events are published at once, except a status that ends or interrupts the task.

    Such a status is held until the executor returns or continues. As an exception, AUTH_REQUIRED is published at once.
    """

    def __init__(self, job: TaskJob, emit: Emit, *, clock: Clock, approvals: Approvals) -> None:
        self._clock = clock
        self._approvals = approvals
        self._job = job
        self._emit = emit
        self._shown = False
        self.last: TaskStatusUpdateEvent | None = None
        self.reply: Message | None = None

    async def enqueue_event(self, event: Event | Task) -> None:
        """Process a copy of the event, because the executor may change its own object later.

        Raises: ValueError: the SDK's rules do not allow the event.
        """
        event = deepcopy(event)
        _check_tellable(event)
        if self.last is not None and self.last.status.state in TERMINAL:
            return
        if isinstance(event, Message):
            if self._shown or self.last or self.reply:
                raise ValueError("a message must be the whole answer: enqueue one message, or a task and its updates")
            self.reply = event
            return
        if self.reply is not None:
            raise ValueError("no event may follow a message, because a message is the whole answer")
        self._check(event)
        match event:
            case Task():
                self._take_task(event)
            case TaskStatusUpdateEvent():
                self._take_status(event)
            case TaskArtifactUpdateEvent():
                self._show(event)

    def _check(self, event: Task | TaskStatusUpdateEvent | TaskArtifactUpdateEvent) -> None:
        named = event.id if isinstance(event, Task) else event.task_id
        if named != self._job.task_id or event.context_id != self._job.context_id:
            raise ValueError(f"an event names task {named!r}, but the current task is {self._job.task_id!r}")

    def _take_task(self, task: Task) -> None:
        """Publish the new artifacts of the executor's task, and its status if the message began the task.

        The log already contains the task itself.
        """
        former = {artifact.artifact_id for artifact in self._job.former.artifacts} if self._job.former else set()
        for artifact in task.artifacts:
            if artifact.artifact_id not in former:
                self._show(TaskArtifactUpdateEvent(task_id=task.id, context_id=task.context_id, artifact=artifact))
        if task.status.state not in (_SUBMITTED, TaskState.TASK_STATE_UNSPECIFIED) and not self._job.former:
            self._take_status(TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status))

    def _take_status(self, event: TaskStatusUpdateEvent) -> None:
        state = event.status.state
        if state in TERMINAL or state in INTERRUPTED:
            self._release()
            complete_approval(
                event.status,
                now_ns=self._clock.now_ns(),
                expiry_seconds=self._approvals.expiry_seconds,
                by=self._approvals.deciders,
            )
            self.last = event
            if state == TaskState.TASK_STATE_AUTH_REQUIRED:
                # An executor may itself wait for the authorization, so the caller must see this status at once.
                self._show(event)
                self.last = event
        else:
            self._show(event)

    def _show(self, event: Event) -> None:
        self._release()
        self._shown = True
        self._emit(event)

    def _release(self) -> None:
        """Publish a held status, because the executor has continued after it."""
        held, self.last = self.last, None
        if held is not None and held.status.state != TaskState.TASK_STATE_AUTH_REQUIRED:
            self._emit(held)
