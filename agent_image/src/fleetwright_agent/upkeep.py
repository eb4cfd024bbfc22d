"""What keeps the task log in order: what a former process left running, what waits too long, what is too old.

Refuses: deciding how a run ends; `Runs` does.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from fleetwright_agent.parts import Parts
from fleetwright_agent.server.log import LogUnusable
from fleetwright_agent.server.waiting import Waiting

_logger = logging.getLogger(__name__)
_SWEEP_SECONDS: Final = 3600


class Upkeep:
    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._waiting = Waiting(
            log=parts.log,
            tasks=parts.tasks,
            runs=parts.runs,
            conversations=parts.conversations,
            clock=parts.clock,
        )

    async def recover(self) -> None:
        # In the order of their acceptance, which is the order of turns within a conversation.
        interrupted = sorted(await self._parts.log.busy(), key=lambda stored: stored.n)
        await asyncio.gather(*(self._parts.runs.recover(self._parts.tasks.add(stored)) for stored in interrupted))
        if interrupted:
            _logger.warning("tasks were running when the last process ended", extra={"tasks": len(interrupted)})

    async def run(self) -> None:
        """Forgets old tasks now and then; where the log could not be written, tries until it can be again."""
        due, retention = 0.0, self._parts.config.task_retention_seconds
        pause = min(_SWEEP_SECONDS, retention / 4)
        while True:
            await self._parts.runs.settle()
            with suppress(LogUnusable):
                await self._waiting.expire()
            if self._parts.conversations.problem:
                await self._parts.conversations.check()
            if self._parts.log.problem or self._parts.clock.monotonic() >= due:
                before = self._parts.clock.now_ns() - retention * 1_000_000_000
                with suppress(LogUnusable):  # Readiness tells it, and the next round tries again.
                    forgotten = await self._parts.log.sweep(before)
                    await self._waiting.tidy()
                    if self._parts.pushes:
                        await self._parts.pushes.refresh()
                    due = self._parts.clock.monotonic() + pause
                    _logger.info("old tasks forgotten", extra={"tasks": forgotten})
            await asyncio.sleep(self._parts.retry_seconds)
