"""Stores the workspace state of conversations in memory."""

import asyncio
from collections.abc import Sequence

from fleetwright_agent.storage.conversations import conversation
from fleetwright_agent.storage.memory.tables import MemoryTables, StoredThread, committed
from fleetwright_agent.storage.workspace import MOST_EDITS, MOST_FILES, FileVersion, Todo, WorkspaceRecord


class MemoryWorkspaceStore:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def record_read(self, owner: str, context_id: str, path: str, version: FileVersion) -> "asyncio.Future[None]":
        files = self._tables.thread(conversation(owner, context_id)).files_read
        files.pop(path, None)
        files[path] = version
        for oldest in list(files)[:-MOST_FILES]:
            del files[oldest]
        return committed()

    async def last_read(self, owner: str, context_id: str, path: str) -> FileVersion | None:
        return self._thread(owner, context_id).files_read.get(path)

    async def recent(self, owner: str, context_id: str, *, most: int) -> list[str]:
        return list(self._thread(owner, context_id).files_read)[::-1][:most]

    async def begin_edit(self, owner: str, context_id: str, call: str, digest: str) -> None:
        edits = self._tables.thread(conversation(owner, context_id)).edits
        edits.pop(call, None)
        edits[call] = digest
        for oldest in list(edits)[:-MOST_EDITS]:
            del edits[oldest]

    async def intended_digest(self, owner: str, context_id: str, call: str) -> str | None:
        return self._thread(owner, context_id).edits.get(call)

    async def put_todos(self, owner: str, context_id: str, todos: Sequence[Todo]) -> None:
        self._tables.thread(conversation(owner, context_id)).todos = tuple(todos)

    async def todos(self, owner: str, context_id: str) -> list[Todo]:
        return list(self._thread(owner, context_id).todos)

    async def of(self, owner: str, context_id: str = "") -> list[WorkspaceRecord]:
        found: list[WorkspaceRecord] = []
        for name in self._tables.below(owner):
            _, context, *task = name.split("\n")
            stored = self._tables.threads[name]
            # Skip the separate threads of tasks, which have copies of the data of their conversations.
            if not task and context_id in ("", context) and (stored.files_read or stored.todos):
                found.append(WorkspaceRecord(context, tuple(stored.files_read)[::-1], stored.todos))
        return found

    def _thread(self, owner: str, context_id: str) -> StoredThread:
        return self._tables.threads.get(conversation(owner, context_id), StoredThread())
