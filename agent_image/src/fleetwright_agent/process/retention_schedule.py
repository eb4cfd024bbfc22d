"""The time at which a sleeping agent must run again to delete data whose retention time has ended.

An agent that runs deletes such data in its maintenance rounds. A sleeping agent wakes for it, but not for every single
conversation: it may delete up to a day late, and then deletes everything that is due.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.process.dependencies import Dependencies
from fleetwright_agent.storage.conversations import Place

_SECOND: Final = 1_000_000_000
_LATEST_SECONDS: Final = 86_400


@dataclass(frozen=True, slots=True)
class RetainedData:
    """Data of one kind with the same retention time."""

    oldest: float | None
    """The last use of the oldest data, in seconds since the epoch, or None."""
    retention: float
    """Seconds."""


def next_deletion(kinds: Collection[RetainedData], *, read_at: float, last_active: float | None) -> float | None:
    """Return the time at which data must be deleted, in seconds since the epoch, or None without data.

    Args:
        read_at: The time at which the data was read.
        last_active: The last activity of a task, which may have added data of every kind since.
    """
    due = [each.oldest + each.retention for each in kinds if each.oldest is not None]
    shortest = min(each.retention for each in kinds)
    if last_active is not None and last_active >= read_at:
        due.append(read_at + shortest)
    return min(due) + min(_LATEST_SECONDS, shortest / 4) if due else None


class RetentionSchedule:
    def __init__(self, dependencies: Dependencies) -> None:
        self._dependencies = dependencies
        self._kinds: tuple[RetainedData, ...] = ()
        self._read_at = 0.0

    async def read(self) -> None:
        """Read the age of the data that is left after a deletion of old data.

        Raises: TaskLogUnavailable, MemoryUnusable.
        """
        config, storage = self._dependencies.turn.config, self._dependencies.turn.storage
        read_at, log = self._dependencies.turn.clock.now(), self._dependencies.task_log
        ended_ns, busy = await log.oldest_ended_ns(), await log.held()
        conversations = config.memory.conversation_retention_seconds
        self._kinds = (
            RetainedData(None if ended_ns is None else ended_ns / _SECOND, config.task_retention_seconds),
            RetainedData(await self._oldest_conversation(busy), conversations),
            RetainedData(await storage.sessions.oldest(), conversations),
            RetainedData(await storage.peer_calls.oldest(), conversations),
            RetainedData(await storage.conversations.oldest_archived(), config.compaction.archive.retain_seconds),
        )
        self._read_at = read_at

    def next_ns(self) -> int | None:
        """Return the time at which the agent must run again, or None without data."""
        if not self._kinds:
            return None
        last_ns = self._dependencies.activity.latest_ns
        last_active = None if last_ns is None else last_ns / _SECOND
        due = next_deletion(self._kinds, read_at=self._read_at, last_active=last_active)
        return None if due is None else int(due * _SECOND)

    async def _oldest_conversation(self, busy: Collection[Place]) -> float | None:
        """Conversations whose task runs or waits are always kept."""
        uses = await self._dependencies.turn.storage.conversations.last_uses()
        return next((each.used for each in uses if each.place not in busy), None)
