"""Builds the stores of an agent in memory. They end with the process."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleetwright_agent.storage.erasures import ErasureTarget, PendingErasure
from fleetwright_agent.storage.memory.conversations import MemoryConversationStore, MemoryOwnerData, MemoryViewStore
from fleetwright_agent.storage.memory.facts import MemoryFactStore, MemoryLearnedSkillStore
from fleetwright_agent.storage.memory.open_model_calls import MemoryOpenModelCalls
from fleetwright_agent.storage.memory.peer_calls import MemoryPeerCalls
from fleetwright_agent.storage.memory.sessions import MemorySessionStore
from fleetwright_agent.storage.memory.tables import MemoryTables
from fleetwright_agent.storage.memory.turns import (
    MemoryCallWindows,
    MemoryDelegatedTasks,
    MemoryGrantStore,
    MemoryOpenQuestions,
    MemoryToolJournal,
)
from fleetwright_agent.storage.memory.usage import MemoryInflightUsage, MemoryUsageStore
from fleetwright_agent.storage.memory.workspace import MemoryWorkspaceStore
from fleetwright_agent.storage.storage import Storage

if TYPE_CHECKING:
    from fleetwright_agent.storage.checkpoints import ConversationSaver


def memory_storage(
    *,
    now: Callable[[], float] = time.time,
    now_ns: Callable[[], int] = time.time_ns,
    tables: MemoryTables | None = None,
) -> Storage:
    """Return the stores of one process.

    Args:
        now: Seconds since the epoch.
        now_ns: Nanoseconds since the epoch, for the windows of rate-limited tools.
        tables: The state that a former instance left; without it, the stores are empty.
    """
    tables = tables or MemoryTables()
    return Storage(
        file=NoFile(),
        conversations=MemoryConversationStore(tables),
        owners=MemoryOwnerData(tables),
        erasures=MemoryErasures(tables),
        sessions=MemorySessionStore(tables),
        usage=MemoryUsageStore(tables, now=now),
        inflight=MemoryInflightUsage(tables),
        journal=MemoryToolJournal(tables),
        call_windows=MemoryCallWindows(tables, now_ns=now_ns),
        questions=MemoryOpenQuestions(tables),
        delegated=MemoryDelegatedTasks(tables),
        peer_calls=MemoryPeerCalls(tables),
        grants=MemoryGrantStore(tables, now=now),
        workspace=MemoryWorkspaceStore(tables),
        facts=MemoryFactStore(tables, now=now),
        skills=MemoryLearnedSkillStore(tables, now=now),
        open_calls=MemoryOpenModelCalls(tables),
        checkpoints=lambda: _saver(tables, now),
        views=lambda: MemoryViewStore(tables),
    )


def _saver(tables: MemoryTables, now: Callable[[], float]) -> "ConversationSaver":
    # Imported here, because the module imports LangGraph, which only the first task loads.
    from fleetwright_agent.storage.memory.checkpoints import MemoryConversationSaver

    return MemoryConversationSaver(tables, now=now)


class NoFile:
    """Stands for the file that stores in memory do not have."""

    problem: str | None = None

    async def check(self) -> None:
        """Do nothing: there is no file."""

    async def shrink(self) -> None:
        """Do nothing: there is no file."""

    async def scrub(self) -> None:
        """Do nothing: there is no file."""

    async def aclose(self) -> None:
        """Do nothing: there is no file."""


class MemoryErasures:
    def __init__(self, tables: MemoryTables) -> None:
        self._records = tables.erasures

    async def begin(self, target: ErasureTarget, *, asked_by: str, at: float) -> PendingErasure:
        begun = PendingErasure(len(self._records) + 1, target, asked_by, at, {})
        self._records.append((begun, None))
        return begun

    async def counted(self, begun: PendingErasure, found: Mapping[str, int], forks: Sequence[str] = ()) -> None:
        stored, receipt = self._records[begun.number - 1]
        known = tuple(sorted({*stored.forks, *forks}))
        self._records[begun.number - 1] = replace(begun, found=dict(found), forks=known), receipt

    async def finish(self, begun: PendingErasure, receipt: Mapping[str, Any]) -> None:
        self._records[begun.number - 1] = self._records[begun.number - 1][0], json.dumps(receipt)

    async def unfinished(self) -> list[PendingErasure]:
        return [begun for begun, receipt in self._records if receipt is None]

    async def last(self, target: ErasureTarget) -> dict[str, Any] | None:
        receipts = [receipt for begun, receipt in self._records if begun.target == target and receipt]
        newest: dict[str, Any] | None = json.loads(receipts[-1]) if receipts else None
        return newest
