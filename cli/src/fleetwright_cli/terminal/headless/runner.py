"""One headless run: sends the prompt, decides asks by policy, and returns the outcome."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Final

from fleetwright_cli.terminal.headless.approval_rules import ApprovalRules
from fleetwright_cli.terminal.headless.outcome import ExitCode, RunOutcome, code_of, exceeds
from fleetwright_cli.terminal.model.changes import (
    AnswerReplaced,
    AskOpened,
    Change,
    CostChanged,
    FileReceived,
    PhaseChanged,
    SendRefused,
    TextAdded,
)
from fleetwright_cli.terminal.model.values import ENDED, WAITING, PendingAsk, TaskCost, TaskPhase
from fleetwright_cli.terminal.session.chat_session import ChatSession
from fleetwright_cli.terminal.session.messages import Picture
from fleetwright_cli.terminal.transport.errors import AgentUnauthorized, AgentUnreachable, TransportError

_CANCEL_SECONDS: Final = 15.0
_NO_PERSON: Final = "No person is available to answer. Continue without an answer, or end the task."
_DECLINED: Final = "No person is available to approve this call."
_AGAINST_POLICY: Final = "The approval policy of this run declines this call."


class OnAsk(StrEnum):
    FAIL = "fail"
    DECLINE = "decline"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSettings:
    rules: ApprovalRules = field(default_factory=ApprovalRules)
    on_ask: OnAsk = OnAsk.FAIL
    timeout: float | None = None
    max_cost: Decimal | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """The metadata of the message, such as a chosen model."""


class HeadlessRun:
    """The run of one prompt. `interrupt` ends it after the task is cancelled."""

    def __init__(self, settings: RunSettings, show: Callable[[Change], None]) -> None:
        self._settings = settings
        self._show = show
        self._interrupted = asyncio.Event()
        self._task_id = ""
        self._answer = ""
        self._phase: TaskPhase | None = None
        self._reason = ""
        self._refused = ""
        self._truncated = False
        self._cost: TaskCost | None = None
        self._ask: PendingAsk | None = None
        self._files: list[str] = []

    def interrupt(self) -> None:
        self._interrupted.set()

    def on_change(self, change: Change) -> None:
        """Collect what the outcome needs. The session calls it for every change."""
        match change:
            case TextAdded(_, text):
                self._answer += text
            case AnswerReplaced():
                self._answer = ""
            case CostChanged(_, cost):
                self._cost = cost
            case FileReceived(file):
                self._files.append(file.name)
            case AskOpened(ask):
                self._ask = ask
            case SendRefused(_, reason):
                self._refused = reason
            case PhaseChanged(task_id, phase, reason, truncated):
                self._task_id, self._phase, self._reason, self._truncated = task_id, phase, reason, truncated
        self._show(change)

    async def run(self, session: ChatSession, prompt: str, pictures: Sequence[Picture] = ()) -> RunOutcome:
        """Send the prompt as a new task, and return the outcome."""
        stream = session.send(prompt, pictures=pictures, metadata=self._settings.metadata or None)
        return await self._watched(session, self._asked(session, stream))

    async def answer(self, session: ChatSession, task_id: str, prompt: str) -> RunOutcome:
        """Answer the ask of a waiting task with the prompt, and return the outcome."""
        self._task_id = task_id
        try:
            await session.load(task_id)
        except TransportError as error:
            return self._failed(session, error)
        ask, self._ask = self._ask, None
        if ask is None:
            reason = f"task {task_id} does not wait for an answer"
            return self._outcome(session, ExitCode.FAILED, self._phase or TaskPhase.FAILED, reason)
        return await self._watched(session, self._asked(session, session.answer(ask, prompt, "answered")))

    async def _watched(self, session: ChatSession, work: Coroutine[Any, Any, RunOutcome]) -> RunOutcome:
        """Return the outcome of the work. After the timeout or an interrupt, cancel the task first."""
        working = asyncio.create_task(work)
        stop = asyncio.create_task(self._interrupted.wait())
        done, _ = await asyncio.wait(
            {working, stop}, timeout=self._settings.timeout, return_when=asyncio.FIRST_COMPLETED
        )
        stop.cancel()
        if working in done:
            return working.result()
        working.cancel()
        await self._cancel(session)
        if stop in done:
            return self._outcome(session, ExitCode.INTERRUPTED, "interrupted", "interrupted; the task is cancelled")
        reason = f"not ended within {self._settings.timeout:g} s; the task is cancelled"
        return self._outcome(session, ExitCode.TIMEOUT, "timeout", reason)

    async def _asked(self, session: ChatSession, stream: "asyncio.Task[None]") -> RunOutcome:
        """Follow the task, and decide its asks, until it ends or waits for a person."""
        while True:
            await stream
            if session.failure is not None and self._phase not in WAITING | ENDED:
                return self._failed(session, session.failure)
            if self._refused:
                return self._outcome(session, ExitCode.FAILED, TaskPhase.REJECTED, self._refused)
            if exceeds(self._cost, self._settings.max_cost) and self._phase in WAITING:
                await self._cancel(session)
                reason = f"the cost is above --max-cost {self._settings.max_cost}; the task is cancelled"
                return self._outcome(session, ExitCode.FAILED, "max-cost", reason)
            if self._phase not in WAITING or self._ask is None:
                phase = self._phase or TaskPhase.FAILED
                return self._outcome(session, code_of(phase), phase, self._reason)
            ask, self._ask = self._ask, None
            decided = self._decided(session, ask)
            if decided is None:
                self._ask = ask
                reason = "other people decide this call" if ask.reviewed else f"{ask.kind} needs a person"
                return self._outcome(session, ExitCode.INPUT_REQUIRED, TaskPhase.INPUT_REQUIRED, reason)
            self._phase = None
            stream = decided

    def _decided(self, session: ChatSession, ask: PendingAsk) -> "asyncio.Task[None] | None":
        """Answer an ask by policy, or return None if a person has to decide."""
        approved = self._settings.rules.decide(ask)
        if approved:
            return session.answer(ask, "yes", "approved by policy")
        declines = approved is False or self._settings.on_ask is OnAsk.DECLINE
        if ask.reviewed or not declines:
            return None
        if ask.is_approval:
            reason = _AGAINST_POLICY if approved is False else _DECLINED
            return session.answer(ask, {"approved": False, "reason": reason}, "declined by policy")
        return session.answer(ask, _NO_PERSON, "declined by policy")

    async def _cancel(self, session: ChatSession) -> None:
        """Cancel the task of the run, and wait for its last event within bounds."""
        task_id = self._task_id or next(iter(session.state.tasks), "")
        if not task_id:
            return
        with contextlib.suppress(TransportError, TimeoutError):
            async with asyncio.timeout(_CANCEL_SECONDS):
                await session.cancel(task_id)

    def _failed(self, session: ChatSession, error: TransportError) -> RunOutcome:
        lost = isinstance(error, AgentUnreachable | AgentUnauthorized)
        code = ExitCode.UNREACHABLE if lost else ExitCode.FAILED
        return self._outcome(session, code, "unreachable" if lost else "rejected", str(error))

    def _outcome(self, session: ChatSession, code: ExitCode, state: str, reason: str) -> RunOutcome:
        return RunOutcome(
            code=code,
            state=str(state),
            answer=self._answer,
            reason=reason,
            context_id=session.state.context_id,
            task_id=self._task_id or next(iter(session.state.tasks), ""),
            ask=self._ask,
            cost=self._cost,
            files=tuple(self._files),
            truncated=self._truncated,
        )
