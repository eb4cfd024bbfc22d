"""Periodic maintenance: recovers interrupted tasks, expires waiting tasks, and deletes old data.

This module does not decide how a run ends; `TaskRunner` does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.process.retention_schedule import RetentionSchedule
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.storage.errors import MemoryUnusable, TaskLogUnavailable
from fleetwright_agent.storage.tasks.records import Key

_logger = logging.getLogger(__name__)
_SWEEP_SECONDS: Final = 3600
_AT_ONCE: Final = 64
_DECISION_SECONDS: Final = 30.0
"""The longest time for which recovered tasks delay readiness."""


class Maintenance:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._parts = dependencies.turn
        self._task_log = dependencies.task_log
        self._runs = dependencies.task_runner
        self._due = 0.0
        self._expiring = asyncio.Lock()
        self.retention_schedule = RetentionSchedule(dependencies)
        self._counters_resumed = False
        """True once the counters include what all earlier processes have charged."""
        self._charged = False
        """True once the model calls that the end of the previous process interrupted have been charged."""

    async def recover(self) -> None:
        """Charge the model calls that the end of the previous process interrupted, then resume the interrupted tasks.

        Tasks are resumed in the order in which they were accepted, which is the order of turns in a conversation.

        Raises: TaskLogUnavailable.
        """
        with suppress(MemoryUnusable):  # Readiness reports the failure, and the next round retries.
            await self._resume_counters()
            await self._charge_interrupted()
        keys = await self._task_log.busy()
        for first in range(0, len(keys), _AT_ONCE):
            await self._recover(keys[first : first + _AT_ONCE])
        if keys:
            _logger.warning("tasks were running when the last process ended", extra={"tasks": len(keys)})

    async def decided(self) -> None:
        """Wait until every recovered task has resumed or ended."""
        await self._runs.decided(_DECISION_SECONDS)

    async def _resume_counters(self) -> None:
        if self._counters_resumed:
            return
        try:
            await self._parts.cost_accounting.resume_counters()
        except MemoryUnusable:
            raise
        except Exception:
            # Counters are no reason to refuse messages.
            _logger.exception("the counters of tokens and costs do not include all earlier processes")
        self._counters_resumed = True

    async def _charge_interrupted(self) -> None:
        if not self._charged:
            await self._parts.cost_accounting.charge_interrupted()
            self._charged = True

    async def _recover(self, keys: Sequence[Key]) -> None:
        found = [await self._dependencies.active_tasks.find(key.owner, key.task_id) for key in keys]
        left = [live for live in found if live and self._runs.is_left(live)]
        # Record the attempt before any task is resumed, so that the next process can read it even if this one crashes.
        taken = await asyncio.gather(*[live.take_up() for live in left])
        ours = [live for live, is_ours in zip(left, taken, strict=True) if is_ours]
        lost = [live for live in ours if not self._resumed(live)]
        await asyncio.gather(*map(self._runs.lose, lost))

    def _resumed(self, live: ActiveTask) -> bool:
        try:
            return self._runs.recover(live, share=self._dependencies.message_acceptor.again)
        except Exception:
            # Fail only this task. If the error were raised, every start of the process would fail.
            _logger.exception("a task could not be recovered", extra={"task": live.task_id})
            return False

    async def run(self, not_ready: Callable[[], str | None]) -> None:
        """Run every maintenance step in each round, even if other steps or earlier rounds have failed.

        Args: `not_ready` returns why the agent should begin no turn, or None.
        """

        async def expire() -> None:
            async with self._expiring:
                await self._dependencies.interrupt_expiry.expire(is_ready=lambda: not_ready() is None)

        while True:
            for part in (
                self._dependencies.log_level.look,
                self._live,
                self._runs.settle,
                expire,
                # While the audit trail is unusable, the agent is not ready and gets no calls that would write to the
                # trail. This step therefore tests whether the trail works again.
                self._parts.audit_trail.restore,
                self._look,
                self._count_failing_compactions,
                self._dependencies.erasure.resume,
                self._dependencies.retention.look,
                self._dependencies.curator.look,
                self._forget,
            ):
                await self._tried(part)
            await asyncio.sleep(self._dependencies.retry_seconds)

    async def settle_expiry(self) -> None:
        """Wait until no approval is being denied. While the agent is not ready, no other denial begins afterwards."""
        async with self._expiring:
            pass

    async def _tried(self, part: Callable[[], Awaitable[None]]) -> None:
        try:
            await part()
        except (TaskLogUnavailable, MemoryUnusable):
            pass  # Readiness reports the failure, and the next round retries.
        except Exception:
            _logger.exception("a maintenance step failed; the next round retries it")
            self._parts.metrics.upkeep_failures.inc()

    async def _live(self) -> None:
        """Record that the process is alive. A resumed task does not count the time after the last such record."""
        if len(self._runs):
            self._task_log.alive(self._parts.clock.now_ns())

    async def _look(self) -> None:
        """Check whether a store that was unusable works again."""
        if self._parts.storage.file.problem:
            await self._parts.storage.file.check()
        await self._resume_counters()
        await self._charge_interrupted()
        await self._parts.cost_accounting.look()

    async def _count_failing_compactions(self) -> None:
        """Set the gauge from the stored conversations, so that it is correct after a restart and after an erasure."""
        at_least = self._parts.config.compaction.guard.max_failures
        failing = await self._parts.storage.conversations.count_failing_compactions(at_least=at_least)
        self._parts.metrics.compaction_breaker_open.set(failing)

    async def _forget(self) -> None:
        """Delete old data periodically; while the task log cannot be written, retry in every round."""
        if not self._task_log.problem and self._parts.clock.monotonic() < self._due:
            return
        retention = self._parts.config.task_retention_seconds
        before = self._parts.clock.now_ns() - retention * 1_000_000_000
        forgotten = await self._task_log.sweep(before)
        self._dependencies.active_tasks.forget_ended(before)
        await self._dependencies.interrupt_expiry.tidy()
        if self._dependencies.push_service:
            await self._dependencies.push_service.refresh()
        await self._tried(self._empty_archive)
        await self._tried(self._dependencies.retention.expire)
        await self._tried(self.retention_schedule.read)
        times = (
            retention,
            self._parts.config.compaction.archive.retain_seconds,
            self._parts.config.memory.conversation_retention_seconds,
        )
        pause = min(_SWEEP_SECONDS, min(times) / 4)
        self._due = self._parts.clock.monotonic() + pause
        _logger.info("old tasks deleted", extra={"tasks": forgotten})

    async def _empty_archive(self) -> None:
        retained = self._parts.config.compaction.archive.retain_seconds
        gone = await self._parts.storage.conversations.expire_archive(self._parts.clock.now_ns() / 1e9 - retained)
        if gone:
            _logger.info("archived messages deleted", extra={"messages": gone})
