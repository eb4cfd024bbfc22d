"""One database file for each owner, so that search and ranking for one owner never read rows of another owner.

The most recently used files stay open. File names are hashes of the owners, and cannot be mapped back to the owners.
"""

import hashlib
import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite.engine.database import Database

_OPEN: Final = 16


class OwnerDatabases:
    def __init__(self, folder: Path, schema: Sequence[str], *, lock: MemoryLock | None = None) -> None:
        """Args: `lock` is that of the memory volume; see `Database`."""
        self._lock = lock
        self._folder = folder
        self._schema = schema
        self._open: OrderedDict[str, Database] = OrderedDict()

    def has(self, owner: str) -> bool:
        return self._path(_key(owner)).exists()

    async def of(self, owner: str) -> Database:
        """Return the owner's database, and create it if it does not exist."""
        return await self.at(_key(owner))

    def keys(self) -> list[str]:
        """Return the keys of all owners that have a file. This blocks; call it off the event loop."""
        return sorted(path.stem for path in self._folder.glob("*.db"))

    async def at(self, key: str) -> Database:
        if key not in self._open:
            if len(self._open) >= _OPEN:
                _, oldest = self._open.popitem(last=False)
                await oldest.aclose()
            self._open.setdefault(key, Database(self._path(key), self._schema, lock=self._lock))
        self._open.move_to_end(key)
        return self._open[key]

    async def erase(self, owner: str, context_id: str, part: Callable[[sqlite3.Connection, str], None]) -> None:
        """Erase an owner's file, or the rows of one conversation, without leaving traces of them.

        Args: `part` deletes the rows of one conversation.
        """
        if not context_id:
            await self._erase(_key(owner))
        elif self.has(owner):
            database = await self.of(owner)
            await database.run(lambda db: part(db, context_id))
            await database.scrub()

    async def _erase(self, key: str) -> None:
        if opened := self._open.pop(key, None):
            await opened.aclose()
        path = self._path(key)
        for suffix in ("", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)

    async def aclose(self) -> None:
        while self._open:
            await self._open.popitem()[1].aclose()

    def _path(self, key: str) -> Path:
        return self._folder / f"{key}.db"


def _key(owner: str) -> str:
    return hashlib.sha256(owner.encode()).hexdigest()[:32]
