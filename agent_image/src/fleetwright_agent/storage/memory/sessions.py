"""The sessions in memory."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from copy import deepcopy

from fleetwright_agent.storage.memory.tables import MemoryTables, committed
from fleetwright_agent.storage.sessions import Session


class MemorySessionStore:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def put(
        self, owner: str, context_id: str, change: Callable[[Session | None], Session], *, most: int
    ) -> "asyncio.Future[None]":
        sessions = self._tables.sessions
        try:
            changed = change(deepcopy(sessions.get((owner, context_id))))
        except Exception as error:
            failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed
        sessions[owner, context_id] = deepcopy(changed)
        for session in self._newest(owner)[most:]:
            del sessions[owner, session.context_id]
        return committed()

    async def written(self, writing: "asyncio.Future[None]") -> None:
        with suppress(Exception):  # The future holds the failure.
            await writing

    async def newest(self, owner: str, *, but: str, most: int) -> list[Session]:
        return deepcopy([each for each in self._newest(owner) if each.context_id != but][:most])

    async def of(self, owner: str, context_id: str = "") -> list[Session]:
        return deepcopy([each for each in self._newest(owner) if context_id in ("", each.context_id)])

    async def expire(self, before: float) -> None:
        old = [place for place, each in self._tables.sessions.items() if each.updated < before]
        for place in old:
            del self._tables.sessions[place]

    async def oldest(self) -> float | None:
        return min((each.updated for each in self._tables.sessions.values()), default=None)

    def _newest(self, owner: str) -> list[Session]:
        found = [each for (of, _), each in self._tables.sessions.items() if of == owner]
        return sorted(found, key=lambda each: -each.updated)
