"""Periodic maintenance: recovers interrupted tasks, expires waiting ones, and deletes old data.

This module does not decide how a run ends; `TaskRunner` does.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Final

from fleetwright_agent.memory.curator import Curator
from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.server.retention import Retention
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.interrupt_expiry import InterruptExpiry
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.task_log import Key, TaskLogUnavailable
from fleetwright_agent.telemetry.metrics import Metrics

_logger = logging.getLogger(__name__)
_SWEEP_SECONDS: Final = 3600
_AT_ONCE: Final = 64
_DECISION_SECONDS: Final = 30.0
"""The longest time for which recovered tasks delay readiness."""


class Maintenance:
    def __init__(self, parts: Dependencies, *, metrics: Metrics) -> None:
        self._parts = parts
        self._metrics = metrics
        self._due = 0.0
        self._charged = False
        """The model calls that the end of the previous process interrupted are charged."""
        self._waiting = InterruptExpiry(
            log=parts.log,
            tasks=parts.tasks,
            runs=parts.runs,
            turns=parts.turns,
            storage=parts.storage,
            clock=parts.clock,
        )

        self._retention = Retention(
            parts.config.memory,
            volume=parts.volume,
            gate=parts.gate,
            log=parts.log,
            storage=parts.storage,
            metrics=metrics,
            clock=parts.clock,
        )

        self._curator = Curator(
            parts.config, parts.storage.skills, tell=parts.stores.tell, metrics=metrics, clock=parts.clock
        )

    async def recover(self) -> None:
        """Resume the interrupted tasks in the order of acceptance, which is the order of turns in a conversation.

        Model calls that the end of the previous process interrupted are charged before that.

        Raises: LogUnusable.
        """
        with suppress(MemoryUnusable):  # Readiness reports the failure, and the next round retries.
            await self._charge_interrupted()
        keys = await self._parts.log.busy()
        for first in range(0, len(keys), _AT_ONCE):
            await self._recover(keys[first : first + _AT_ONCE])
        if keys:
            _logger.warning("tasks were running when the last process ended", extra={"tasks": len(keys)})

    async def decided(self) -> None:
        """Wait until every recovered task has resumed or ended."""
        await self._parts.runs.decided(_DECISION_SECONDS)

    async def _charge_interrupted(self) -> None:
        if not self._charged:
            await self._parts.books.charge_interrupted()
            self._charged = True

    async def _recover(self, keys: Sequence[Key]) -> None:
        found = [await self._parts.tasks.find(key.owner, key.task_id) for key in keys]
        lost = [live for live in found if live and not self._taken_up(live)]
        await asyncio.gather(*map(self._parts.runs.lose, lost))

    def _taken_up(self, live: ActiveTask) -> bool:
        try:
            return self._parts.runs.recover(live, share=self._parts.intake.again)
        except Exception:
            # Only this task fails. Raised here, the error would fail every start.
            _logger.exception("a task could not be recovered", extra={"task": live.task_id})
            return False

    async def run(self) -> None:
        """Run every part in each round, independent of failures of other parts and of earlier rounds."""
        while True:
            for part in (
                self._parts.log_level.look,
                self._live,
                self._parts.runs.settle,
                self._waiting.expire,
                # If the trail is unusable, the agent is unready and gets no calls whose lines could show that it
                # recovered.
                self._parts.trail.restore,
                self._look,
                self._count_failing_compactions,
                self._parts.erasure.resume,
                self._retention.look,
                self._curator.look,
                self._forget,
            ):
                await self._tried(part)
            await asyncio.sleep(self._parts.retry_seconds)

    async def _tried(self, part: Callable[[], Awaitable[None]]) -> None:
        try:
            await part()
        except (TaskLogUnavailable, MemoryUnusable):
            pass  # Readiness reports the failure, and the next round retries.
        except Exception:
            _logger.exception("a maintenance step failed; the next round retries it")
            self._metrics.upkeep_failures.inc()

    async def _live(self) -> None:
        """Record that the process is alive; a resumed task does not count the time after this record."""
        if len(self._parts.runs):
            self._parts.log.alive(self._parts.clock.now_ns())

    async def _look(self) -> None:
        """Check whether a store that was unusable works again."""
        if self._parts.storage.file.problem:
            await self._parts.storage.file.check()
        await self._charge_interrupted()
        await self._parts.books.look()

    async def _count_failing_compactions(self) -> None:
        """Set the gauge from the stored views, so that it is right after a restart and after an erasure."""
        at_least = self._parts.config.compaction.guard.max_failures
        failing = await self._parts.storage.conversations.count_failing_compactions(at_least=at_least)
        self._metrics.compaction_breaker_open.set(failing)

    async def _forget(self) -> None:
        """Delete old data periodically; while the task log cannot be written, retry in every round."""
        if not self._parts.log.problem and self._parts.clock.monotonic() < self._due:
            return
        retention = self._parts.config.task_retention_seconds
        before = self._parts.clock.now_ns() - retention * 1_000_000_000
        forgotten = await self._parts.log.sweep(before)
        self._parts.tasks.forget_ended(before)
        await self._waiting.tidy()
        if self._parts.pushes:
            await self._parts.pushes.refresh()
        await self._tried(self._empty_archive)
        await self._tried(self._retention.expire)
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
