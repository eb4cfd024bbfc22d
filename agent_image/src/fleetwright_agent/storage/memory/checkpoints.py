"""Checkpoints in memory: the newest of each thread, encoded, so that no object is shared with a caller."""

import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from copy import deepcopy
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.checkpoints import ConversationSaver, message_of
from fleetwright_agent.storage.conversations import SideThread
from fleetwright_agent.storage.memory.tables import MemoryTables, StoredCheckpoint, StoredMessage

_MESSAGES = "messages"


class MemoryConversationSaver(ConversationSaver):
    def __init__(self, tables: MemoryTables, *, now: Callable[[], float] = time.time) -> None:
        """Args: `now` is in seconds since the epoch."""
        super().__init__(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._tables = tables
        self._now = now

    async def settled(self, thread: str) -> None:
        """Return at once: every write is done when its call returns."""

    async def holds(self, thread: str) -> bool:
        stored = self._tables.threads.get(thread)
        return stored is not None and bool(stored.checkpoints)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        place = config["configurable"]
        name, ns, identity = place["thread_id"], place.get("checkpoint_ns", ""), checkpoint["id"]
        thread = self._tables.thread(name)
        known = thread.checkpoints.get(ns)
        messages = known.messages if known else []
        if _MESSAGES in new_versions:
            messages = self._extended(messages, checkpoint["channel_values"].get(_MESSAGES) or ())
        values = {name: value for name, value in checkpoint["channel_values"].items() if name != _MESSAGES}
        body = self.serde.dumps_typed({**checkpoint, "channel_values": values})
        described = self.serde.dumps_typed(dict(metadata))
        thread.checkpoints[ns] = StoredCheckpoint(identity, body, described, self._now(), messages)
        thread.writes = {key: each for key, each in thread.writes.items() if key[0] != ns or key[1] >= identity}
        return {"configurable": {"thread_id": name, "checkpoint_ns": ns, "checkpoint_id": identity}}

    def _extended(self, stored: Sequence[StoredMessage], history: Sequence[Any]) -> list[StoredMessage]:
        """Return `history` as stored messages.

        If `history` extends the stored messages, only the new messages are serialised; otherwise all of them are.
        """
        extends = [each.id for each in stored] == [message.id for message in history[: len(stored)]]
        kept = list(stored) if extends else []
        return kept + [StoredMessage(each.id, *self.serde.dumps_typed(each)) for each in history[len(kept) :]]

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",  # noqa: ARG002 - LangGraph's signature; one graph without subgraphs has no paths
    ) -> None:
        place = config["configurable"]
        stored = self._tables.thread(place["thread_id"]).writes
        for index, (channel, value) in enumerate(writes):
            position = WRITES_IDX_MAP.get(channel, index)
            key = (place.get("checkpoint_ns", ""), place["checkpoint_id"], task_id, position)
            # A special write (an error, an interrupt) replaces its predecessor; an ordinary one does not.
            if position < 0 or key not in stored:
                stored[key] = (channel, *self.serde.dumps_typed(value))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        place = config["configurable"]
        name, ns = place["thread_id"], place.get("checkpoint_ns", "")
        thread = self._tables.threads.get(name)
        found = thread.checkpoints.get(ns) if thread else None
        if thread is None or found is None:
            return None
        checkpoint: Checkpoint = self.serde.loads_typed(found.body)
        if found.messages:
            history = [message_of(self.serde, each.id, each.kind, each.body) for each in found.messages]
            checkpoint["channel_values"][_MESSAGES] = history
        writes = sorted((key[2:], each) for key, each in thread.writes.items() if key[:2] == (ns, found.id))
        pending = [(key[0], channel, self.serde.loads_typed((kind, body))) for key, (channel, kind, body) in writes]
        here: RunnableConfig = {"configurable": {"thread_id": name, "checkpoint_ns": ns, "checkpoint_id": found.id}}
        return CheckpointTuple(here, checkpoint, self.serde.loads_typed(found.metadata), None, pending)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        if config is None or before is not None or filter or limit == 0:
            return
        found = await self.aget_tuple(config)
        if found is not None:
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        self._tables.threads.pop(thread_id, None)

    async def adelete_aside(self, aside: SideThread) -> None:
        self._tables.delete_below(aside.thread)

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._tables.threads.pop(target_thread_id, None)
        if source := self._tables.threads.get(source_thread_id):
            self._tables.threads[target_thread_id] = deepcopy(source)

    def list(self, *args: Any, **kwargs: Any) -> Iterator[CheckpointTuple]:
        raise NotImplementedError("this saver is asynchronous; use alist")
