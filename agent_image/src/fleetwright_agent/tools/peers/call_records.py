"""Records of the calls to other agents, for administrators: which agent was asked, and how the call ended.

A record is written before the request is sent. It contains only the beginnings of the request and of the result,
without secrets. A call does not fail because its record cannot be written.
"""

import asyncio
import hashlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Final

from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.open_questions import (
    DelegatedTask,
    DelegatedTasks,
    PeerCall,
    PeerCalls,
    PeerCallStatus,
    QuestionKey,
)
from fleetwright_agent.tools.port import ToolCall, ToolError

MOST_CHARACTERS: Final = 300
_MARGIN: Final = 8192
"""Characters beyond the stored part that are redacted too, because a truncated secret would not be recognised."""
_CUT: Final = "…"
_CANCELLED: Final = "the call was cancelled"
_INTERNAL_ERROR: Final = "the call failed because of an internal error"
_INTERRUPTED: Final = "the task of this agent ended before the result was known"
_UNANSWERED: Final = "the task of this agent ended without an answer to the question: "
_log = logging.getLogger(__name__)


class PeerCallRecord:
    """The record of one running call."""

    def __init__(
        self, calls: PeerCalls, call: PeerCall, *, preview: Callable[[str], str], now: Callable[[], float]
    ) -> None:
        self._calls = calls
        self._call = call
        self._preview = preview
        self._now = now
        self._is_reported = False

    async def begin(self) -> None:
        async def begin() -> None:
            self._call = await self._calls.begin(self._call)

        await self._write(begin())

    async def dispatched(self, task_id: str) -> None:
        """Record that the peer has begun a task."""
        await self._change(replace(self._call, peer_task_id=task_id, status=PeerCallStatus.DISPATCHED))

    async def answers(self, task_id: str) -> None:
        """Record that this call answers a question of the peer. The call that led to the question is completed."""
        await self.dispatched(task_id)
        await self._write(self._complete_earlier())

    async def asked(self, question: str) -> None:
        """Record the question of the peer. The call ends with the answer, or with the task of this agent."""
        await self._change(replace(self._call, result=self._preview(question)))

    async def ended(self, status: PeerCallStatus, text: str) -> None:
        await self._change(replace(self._call, status=status, result=self._preview(text), ended_at=self._now()))

    async def _change(self, call: PeerCall) -> None:
        self._call = call
        await self._write(self._calls.update(call))

    async def _complete_earlier(self) -> None:
        place = QuestionKey(self._call.owner, self._call.context_id, self._call.peer)
        for each in await _unfinished(self._calls, place, self._call.peer_task_id):
            if each.id != self._call.id:
                await self._calls.update(replace(each, status=PeerCallStatus.COMPLETED, ended_at=self._now()))

    async def _write(self, write: Awaitable[None]) -> None:
        try:
            await write
        except MemoryUnusable as error:
            if not self._is_reported:
                _report(self._call.peer, error)
            self._is_reported = True


class CallRecords:
    """Keeps the records of all calls of this agent. Several providers share it."""

    def __init__(
        self, calls: PeerCalls, delegated: DelegatedTasks, *, redact: Callable[[str], str], now: Callable[[], float]
    ) -> None:
        """Args:
        calls: The store of the records.
        delegated: The tasks whose results a later turn will receive.
        redact: Removes secrets from a text.
        now: Returns seconds since the epoch.
        """
        self._calls = calls
        self._delegated = delegated
        self._redact = redact
        self._now = now
        self._background_writes: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def record(self, place: QuestionKey, call: ToolCall) -> AsyncIterator[PeerCallRecord]:
        """Record a call that begins now. If the block raises an exception, the call has failed."""
        begun = PeerCall(
            _record_id(place, call),
            place.owner,
            place.context_id,
            call.turn.task_id,
            place.peer,
            self._preview(call.arguments["message"]),
            self._now(),
        )
        record = PeerCallRecord(self._calls, begun, preview=self._preview, now=self._now)
        await record.begin()
        try:
            yield record
        except (asyncio.CancelledError, Exception) as error:
            await record.ended(PeerCallStatus.FAILED, _reason(error))
            raise

    async def ended(self, place: QuestionKey, peer_task_id: str, status: PeerCallStatus, text: str) -> None:
        """Record the end of a call that did not wait for its task."""
        result, at = self._preview(text), self._now()
        await self._change(place, peer_task_id, lambda call: replace(call, status=status, result=result, ended_at=at))

    async def asked(self, place: QuestionKey, peer_task_id: str, question: str, task_id: str) -> None:
        """Record the question of a peer's task that no call waited for.

        Args: `task_id` is the task of this agent that must answer it.
        """
        result = self._preview(question)
        await self._change(place, peer_task_id, lambda call: replace(call, result=result, task_id=task_id))

    def over(self, owner: str, task_id: str) -> None:
        """End the calls of a task that will not continue. The method returns at once; the records are written later."""
        task = asyncio.ensure_future(self._end_all(owner, task_id))
        self._background_writes.add(task)
        task.add_done_callback(self._background_writes.discard)

    async def aclose(self) -> None:
        """Wait until all records are written."""
        while self._background_writes:
            await asyncio.gather(*self._background_writes)

    async def _change(self, place: QuestionKey, peer_task_id: str, change: Callable[[PeerCall], PeerCall]) -> None:
        try:
            for each in await _unfinished(self._calls, place, peer_task_id):
                await self._calls.update(change(each))
        except MemoryUnusable as error:
            _report(place.peer, error)

    async def _end_all(self, owner: str, task_id: str) -> None:
        with suppress(MemoryUnusable):  # Readiness reports the failure; maintenance ends these calls later.
            await end_interrupted(owner, task_id, self._calls, self._delegated, at=self._now())

    def _preview(self, text: str) -> str:
        # Redact before cutting, so that a secret at the cut is recognised. SQLite refuses lone surrogates.
        text = self._redact(text[: MOST_CHARACTERS + _MARGIN]).encode(errors="replace").decode()
        return text if len(text) <= MOST_CHARACTERS else f"{text[: MOST_CHARACTERS - len(_CUT)]}{_CUT}"


async def end_interrupted(owner: str, task_id: str, calls: PeerCalls, delegated: DelegatedTasks, *, at: float) -> None:
    """Mark the unfinished calls of a task of this agent as failed. The task must have ended.

    A call whose result a later turn will receive remains unfinished.

    Raises: MemoryUnusable.
    """
    for call in await calls.of(owner):
        if call.ended_at is not None or call.task_id != task_id:
            continue
        task = DelegatedTask(call.owner, call.context_id, call.peer, call.peer_task_id)
        if task not in await delegated.of(call.owner, call.context_id):
            reason = f"{_UNANSWERED}{call.result}"[:MOST_CHARACTERS] if call.result else _INTERRUPTED
            await calls.update(replace(call, status=PeerCallStatus.FAILED, result=reason, ended_at=at))


async def _unfinished(calls: PeerCalls, place: QuestionKey, peer_task_id: str) -> list[PeerCall]:
    """Return the unfinished calls that have begun this task of the peer, or have continued it."""
    found = await calls.of(place.owner, place.context_id)
    wanted = (place.peer, peer_task_id)
    return [each for each in found if each.ended_at is None and (each.peer, each.peer_task_id) == wanted]


def _record_id(place: QuestionKey, call: ToolCall) -> str:
    name = (place.owner, place.context_id, place.peer, call.turn.task_id, call.key)
    return hashlib.sha256("\n".join(name).encode(errors="replace")).hexdigest()[:32]


def _reason(error: BaseException) -> str:
    if isinstance(error, ToolError):
        return str(error)
    return _CANCELLED if isinstance(error, asyncio.CancelledError) else _INTERNAL_ERROR


def _report(peer: str, error: Exception) -> None:
    _log.warning("a call to another agent could not be recorded", extra={"peer": peer, "why": str(error)})
