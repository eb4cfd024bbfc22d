"""Acceptance of a caller's message: finds or creates the task of the message, exactly once.

This module rejects messages that the card does not allow, messages to tasks of other callers, and messages to tasks
that accept no further message.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from weakref import WeakValueDictionary

from a2a.types.a2a_pb2 import SendMessageRequest
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.card import Card
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import LimitReached, ServiceUnavailable, TooManyPending
from fleetwright_a2a.extensions import TRACE
from fleetwright_a2a.http.concurrency_limits import ConcurrencyLimit, Release
from fleetwright_a2a.task_events import TERMINAL, copy_of, state_word
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.protocol.interrupts import pause_of
from fleetwright_agent.server.executors.port import TaskJob
from fleetwright_agent.server.extensions import OF_CALLERS
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.server.tasks.answer_checks import AnswerChecks
from fleetwright_agent.server.tasks.interrupt_replies import answers_another, record_answer, stamp_answer
from fleetwright_agent.server.tasks.messages import (
    NO_CHOICES,
    addressed,
    check_content,
    check_message,
    claim_of,
    further,
    understood,
)
from fleetwright_agent.server.tasks.new_task import Origin, job_of, new_task
from fleetwright_agent.server.tasks.output_modes import check_output_modes
from fleetwright_agent.server.tasks.retransmissions import Retransmissions, waits
from fleetwright_agent.server.tasks.size_limits import is_full
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.tasks.records import (
    Claim,
    DuplicateClaim,
    MessageNotAccepted,
    StoredTask,
    TaskIdInUse,
    TooManyWaitingTasks,
)
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.telemetry.metrics import Metrics

Start = Callable[[], None]
"""Starts the accepted work. Idempotent. Does nothing for a message that was already sent before."""
_Taken = tuple[ActiveTask, TaskJob | None]
"""The task and its job. A message that was already sent before has no job."""


class MessageAcceptor:
    def __init__(
        self,
        *,
        log: TaskLog,
        tasks: ActiveTasks,
        runs: TaskRunner,
        cards: Sequence[FileWatcher[Card]],
        admission: Admission,
        clock: Clock,
        metrics: Metrics,
        most: int,
        most_waiting: int,
        answers: AnswerChecks,
        extensions: frozenset[str] = OF_CALLERS,
        supported: frozenset[str] = frozenset(),
        choices: Mapping[str, frozenset[str]] = NO_CHOICES,
        lasting: frozenset[str] = frozenset(),
    ) -> None:
        """
        Args:
            cards: The agent cards. The first readable card defines the accepted media types and output modes.
            most: The maximum number of tasks that one caller may run at once.
            most_waiting: If so many tasks wait for a caller, the caller cannot start another task.
            answers: Checks answers to approvals.
            extensions: The URIs of extensions that are read from messages.
            supported: The URIs of the extensions that the agent supports.
            choices: The allowed values of metadata keys.
            lasting: The URIs of extensions that stay active for a task whose caller has requested them once.
        """
        self._lasting = lasting
        self._choices = choices
        self._answers = answers
        self._extensions = extensions
        self._supported = supported
        self._most_waiting = most_waiting
        self._log = log
        self._retransmissions = Retransmissions(log, tasks, clock)
        self._tasks = tasks
        self._runs = runs
        self._cards = tuple(cards)
        self._admission = admission
        self._clock = clock
        self._metrics = metrics
        self._shares = ConcurrencyLimit(
            most, "This caller already has {most} tasks running, the maximum; send it again when one has ended."
        )
        self._choosing: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()

    async def take(
        self,
        owner: str,
        request: SendMessageRequest,
        *,
        called: str | None = None,
        requested: Iterable[str] = (),
        trace: Mapping[str, str] | None = None,
        delegation: Delegation | None = None,
        chain: Sequence[str] = (),
        dedup_key: str | None = None,
    ) -> tuple[ActiveTask, Start]:
        """Accept a message, and return when it is on disk. Its work starts when the returned `Start` is called.

        Args:
            called: The id of the request, for callers that choose task ids and send no message ids (A2A 0.1). If the
                message names a task that does not exist, the task is created with the id that the message names.
            requested: The extensions that the caller requests.
            trace: The trace context, used if the metadata contains none. It does not distinguish messages.
            delegation: The right to act for a principal, stored with the task. It does not distinguish messages. A new
                task gets the id in the delegation, and a message to a task needs a delegation for this task.
            chain: The agents that the request came through. A task that begins keeps them.
            dedup_key: A key under which the agent accepts at most one task in the life of its memory.
        """
        request = understood(request, self._extensions)
        card = self._card()
        check_message(request, input_modes=_input_modes(card), choices=self._choices, supported=self._supported)
        if card is not None:
            check_output_modes(request, card)
        try:
            release = self._shares.take(owner)
        except LimitReached:
            # A message that was already sent before gets its response despite the limit.
            if known := await self._retransmissions.known(owner, request, called):
                return await self._retransmissions.task_of(owner, known, called), _nothing
            # An answer to a waiting task is also accepted despite the limit, because the task cannot end without it.
            if not await self._waits(owner, request.message.task_id):
                raise
            release = self._shares.take(owner, beyond=True)
        try:
            live, job = await self._taken(
                owner,
                request,
                called,
                Origin(delegation, tuple(chain), self._lasting.intersection(requested), dedup_key),
            )
        except BaseException:
            release()
            raise
        if job is None:
            release()
            return live, _nothing
        accepted = tuple(request.configuration.accepted_output_modes)
        metadata = {**({TRACE: dict(trace)} if trace else {}), **job.metadata}
        job = replace(job, requested=frozenset(requested), accepted=accepted, metadata=metadata)
        return live, self._runs.take_up(live, job, then=release)

    def again(self, live: ActiveTask) -> Release:
        """Count a resumed task, even beyond the limit of its caller. Return a function that uncounts the task."""
        return self._shares.take(live.owner, beyond=True)

    def _card(self) -> Card | None:
        return next((found for card in self._cards if (found := card.recent()[0]) is not None), None)

    async def _waits(self, owner: str, task_id: str) -> bool:
        live = await self._tasks.find(owner, task_id) if task_id else None
        return live is not None and waits(live)

    async def _taken(self, owner: str, request: SendMessageRequest, called: str | None, origin: Origin) -> _Taken:
        if origin.delegation is not None and request.message.task_id not in ("", origin.delegation.task_id):
            raise InvalidParamsError(_OTHER_TASK)
        if request.message.task_id and called is not None:
            return await self._begin_or_follow(owner, request, called, origin)
        if request.message.task_id:
            return await self._follow(claim_of(owner, request), request, origin)
        return await self._begin(claim_of(owner, request), request, origin)

    async def _begin_or_follow(self, owner: str, request: SendMessageRequest, called: str, origin: Origin) -> _Taken:
        """Begin the task that the caller names, or continue it if it exists.

        A message to an existing task is a retransmission if it equals the task's first message, or if the same request
        was accepted before. Any other message is new.
        """
        task_id = request.message.task_id
        async with self._choosing.setdefault((owner, task_id), asyncio.Lock()):
            live, answer = await self._tasks.find(owner, task_id), further(request, called)
            named = claim_of(owner, answer)
            if live is None:
                return await self._begin(claim_of(owner, request), request, origin, also=named if called else None)
            if known := await self._retransmissions.known(owner, request, called):
                if not await self._retransmissions.answers_anew(live, claim_of(owner, request), named):
                    return await self._retransmissions.task_of(owner, known, called), None
                answer = further(request, "")
            return await self._follow(claim_of(owner, answer), answer, origin)

    async def _begin(
        self, claim: Claim, request: SendMessageRequest, origin: Origin, *, also: Claim | None = None
    ) -> _Taken:
        # In A2A 0.1, the first message of a task names the task too. It answers no question.
        check_content(request.message, input_modes=_input_modes(self._card()), is_answer=False)
        now = self._clock.now_ns()
        task = new_task(request, origin, at_ns=now)
        try:
            self._admission.admit(claim.owner, begins=True)
        except ServiceUnavailable:
            # A message that was already sent before gets its response even while no new task is admitted.
            if await self._log.known(claim) is None:
                raise
        answer = await self._log.accept(
            claim,
            task,
            at_ns=now,
            most_waiting=self._most_waiting,
            also=also,
            delegation=origin.delegation,
            dedup_key=origin.dedup_key,
        )
        if isinstance(answer, DuplicateClaim):
            return await self._retransmissions.task_of(claim.owner, answer), None
        if isinstance(answer, TaskIdInUse):
            raise InvalidParamsError(_TASK_ID_IN_USE if origin.delegation is None else _DELEGATION_IN_USE)
        if isinstance(answer, TooManyWaitingTasks):
            raise TooManyPending(
                f"This caller already has {self._most_waiting} tasks that wait for its answer, the maximum;"
                " answer or cancel one, then send it again."
            )
        live = self._tasks.add(StoredTask(n=answer.n, owner=claim.owner, seq=1, busy=True, task=copy_of(task)))
        return live, job_of(live, task.history[0])

    async def _follow(self, claim: Claim, request: SendMessageRequest, origin: Origin) -> _Taken:
        message = request.message
        live = await self._tasks.find(claim.owner, message.task_id)
        if live is None:
            raise TaskNotFoundError
        if message.context_id not in ("", live.task.context_id):
            raise InvalidParamsError("message.contextId is not the context of message.taskId; leave it out")
        if known := await self._log.known(claim):
            # The same message was accepted before, when the task was in the right state for it.
            return await self._retransmissions.task_of(claim.owner, known), None
        checked = await self._answers.check(live, message)
        former = live.task
        if is_full(former, message):
            raise UnsupportedOperationError(f"The task has reached its maximum size; {_ADVICE_ENDED}")
        now, pause = self._clock.now_ns(), pause_of(former)
        if answers_another(message, pause) or (checked and (pause is None or pause.identity != checked)):
            raise InvalidParamsError("The question that this message answers is closed; read the task for the open one")
        if pause is not None and pause.expired(now):
            # The next round of maintenance delivers the denial.
            raise UnsupportedOperationError(f"The deadline of this question has passed; {_ADVICE_EXPIRED}")
        kept = stamp_answer(addressed(request, former, activated=origin.activated), pause, by=live.owner, at_ns=now)
        self._admission.admit(claim.owner, begins=False)
        answer = await live.resume(claim, kept, origin.delegation)
        if isinstance(answer, DuplicateClaim):
            return await self._retransmissions.task_of(claim.owner, answer), None
        if isinstance(answer, MessageNotAccepted):
            state = state_word(live.state)
            raise UnsupportedOperationError(
                f"The task is {state} and takes no further message;"
                f" {_ADVICE_ENDED if live.state in TERMINAL else _ADVICE_RUNNING}"
            )
        if pause is not None:
            record_answer(self._metrics, live.task_id, pause, kept, now_ns=now)
        return live, job_of(live, kept, pause, former)


_ADVICE_ENDED = "send the message without taskId to continue in its context"
_ADVICE_EXPIRED = "read the task for its state, or send the message without taskId to continue in its context"
_ADVICE_RUNNING = "wait until it rests, or cancel it"
_OTHER_TASK: Final = (
    "Fleetwright-Delegation: the delegation was issued for a task other than message.taskId. Get a delegation for this"
    " task from the gateway: name the task in audience_task at /oauth/token, or send the message through the gateway"
)
_TASK_ID_IN_USE: Final = (
    "message.taskId: another message has begun a task with this id at the same time. Send the message again to continue"
    " that task, or choose another id"
)
_DELEGATION_IN_USE: Final = (
    "Fleetwright-Delegation: another message has begun the task of this delegation. Get a new delegation for each"
    " message that begins a task, or name the existing task in message.taskId"
)


def _input_modes(card: Card | None) -> frozenset[str]:
    return card.input_modes if card else frozenset()


def _nothing() -> None:
    return None
