"""The memory of an agent that stores nothing on disk, to measure the same turn without durability."""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple

from fleetwright_agent.storage.sqlite.conversations.checkpoints import SqliteConversationSaver
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.engine.transaction import JobKind

T = TypeVar("T")


class Nowhere(Database):
    """Runs work in the calling thread, on tables in memory."""

    def __init__(self, schema: Sequence[str]) -> None:
        super().__init__(Path(":memory:"), schema)
        self._tables: sqlite3.Connection | None = None

    def _submit(
        self, work: Callable[[sqlite3.Connection], Any], kind: JobKind = JobKind.AWAITED
    ) -> "asyncio.Future[Any]":
        if self._tables is None:
            self._tables = self._open()
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        try:
            done.set_result(work(self._tables))
        except Exception as error:
            done.set_exception(error)
        return done

    async def aclose(self) -> None:
        if self._tables is not None:
            self._tables.close()
            self._tables = None
        await super().aclose()

    async def look(self, work: Callable[[sqlite3.Connection], T], *, of: str = "") -> T:
        return await self.read(work)


class Held(SqliteConversationSaver):
    """Keeps the newest step of each thread as an object."""

    def __init__(self) -> None:
        super().__init__(Nowhere(()))
        self._steps: dict[str, tuple[Checkpoint, CheckpointMetadata]] = {}

    async def holds(self, thread: str) -> bool:
        return thread in self._steps

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = config["configurable"]
        self._steps[place["thread_id"]] = checkpoint, metadata
        return {"configurable": {**place, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Discard the writes: a step that did not end is never resumed."""

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        found = self._steps.get(config["configurable"]["thread_id"])
        if found is None:
            return None
        checkpoint, metadata = found
        values = {**checkpoint["channel_values"]}
        named: RunnableConfig = {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}
        return CheckpointTuple(named, {**checkpoint, "channel_values": values}, metadata, None, [])
