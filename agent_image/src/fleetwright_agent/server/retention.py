"""Deletes old conversations to keep age, number and size within limits, and stops new tasks while memory is full.

A conversation whose task runs or waits is always kept. If other data alone exceeds the size limit, all conversations
are kept, because deleting them would not help. The task log itself deletes tasks.
"""

import asyncio
import logging
from collections.abc import Collection
from typing import Final

from fleetwright_a2a.clock import Clock
from fleetwright_agent.config.memory import Memory
from fleetwright_agent.server.tasks.admission import Admission
from fleetwright_agent.storage.conversations import Place, beyond, idle
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tasks.task_log import TaskLog
from fleetwright_agent.storage.volume import MemoryVolume, VolumeUsage
from fleetwright_agent.telemetry.metrics import Metrics

_logger = logging.getLogger(__name__)
_AT_ONCE: Final = 8
_SCRUB_SECONDS: Final = 3600.0
_GROW: Final = "raise memory.maxBytes and memory.storage.size"
_REMEDIES: Final = {
    "tasks": f"{_GROW}, or lower memory.taskRetention",
    "audit": f"{_GROW}, or move audit/audit.jsonl.1 off the volume and lower audit.maxBytes",
}


class Retention:
    def __init__(
        self,
        policy: Memory,
        *,
        volume: MemoryVolume,
        admission: Admission,
        log: TaskLog,
        storage: Storage,
        metrics: Metrics,
        clock: Clock,
    ) -> None:
        self._policy = policy
        self._volume = volume
        self._admission = admission
        self._log = log
        self._storage = storage
        self._metrics = metrics
        self._clock = clock
        self._scrubbed: float | None = None
        metrics.memory_limit_bytes.set(volume.most_bytes)

    async def look(self) -> None:
        """Measure the volume, free space if necessary, and set whether new tasks are admitted.

        Raises:
            TaskLogUnavailable, MemoryUnusable, OSError: Measuring or freeing space failed. The admission is unchanged.
        """
        sizes = await self._measured()
        if self._volume.over(sizes):
            sizes = await self._make_room(sizes)
        full = self._volume.is_full(sizes)
        if full and not self._admission.full:
            self._tell(sizes)
        self._admission.full = full
        self._metrics.memory_full.set(full)

    async def expire(self) -> None:
        """Delete idle conversations, sessions and calls of peers, and the oldest conversations of owners with too many.

        Raises: TaskLogUnavailable, MemoryUnusable, OSError.
        """
        found, busy = await self._storage.conversations.last_uses(), await self._log.held()
        before = self._clock.now() - self._policy.conversation_retention_seconds
        old = idle(found, before=before, busy=busy)
        await self._forget(old, "idle")
        await self._storage.sessions.expire(before)
        await self._storage.peer_calls.expire(before)
        left = [each for each in found if each.place not in set(old)]
        await self._forget(beyond(left, most=self._policy.max_conversations_per_caller, busy=busy), "count")

    def _tell(self, sizes: VolumeUsage) -> None:
        seen = {"bytes": sizes.used, "free": sizes.free}
        part = self._volume.overgrown(sizes)
        if part is None:
            _logger.warning("the memory is full: no new task begins", extra=seen)
            return
        _logger.warning(
            "the memory is full: no new task begins, and no conversation is deleted, because the other data alone is"
            " too large; most of it is %s, %d of the %d bytes of memory.maxBytes: %s",
            *(part, sizes.parts[part], self._volume.most_bytes, _REMEDIES.get(part, _GROW)),
            extra=seen,
        )

    async def _measured(self) -> VolumeUsage:
        sizes = await asyncio.to_thread(self._volume.sizes)
        for part, size in sizes.parts.items():
            self._metrics.memory_bytes.labels(part).set(size)
        self._metrics.memory_free_bytes.set(sizes.free)
        return sizes

    async def _make_room(self, sizes: VolumeUsage) -> VolumeUsage:
        now = self._clock.monotonic()
        if self._scrubbed is None or now - self._scrubbed >= _SCRUB_SECONDS:
            # Deleted tasks leave free pages in the SQLite file until the file is vacuumed.
            self._scrubbed = now
            await self._log.scrub()
            await self._storage.file.shrink()
            sizes = await self._measured()
        while self._volume.over(sizes) and not self._volume.overgrown(sizes):
            busy = await self._log.held()
            places = [each.place for each in await self._storage.conversations.last_uses() if each.place not in busy]
            if not places:
                break
            await self._forget(places[:_AT_ONCE], "room")
            before, sizes = sizes.used, await self._measured()
            if sizes.used >= before:
                break  # Deleting frees no space right now, so keep the other conversations.
        return sizes

    async def _forget(self, places: Collection[Place], reason: str) -> None:
        if not places:
            return
        await self._storage.conversations.forget(places)
        await self._storage.file.shrink()
        self._metrics.conversations_forgotten.labels(reason).inc(len(places))
        _logger.info("conversations forgotten", extra={"conversations": len(places), "reason": reason})
