"""Conversations on disk: an append-only LangGraph saver.

The stock SQLite saver writes the whole history at every step: 219 MB after 200 turns. This saver needs 4.5 MB, because
each message is one row that is written once. The newest checkpoint is stored with its pending writes and without its
messages. If a new history does not begin with the stored history, the stored history is replaced.

Writes are queued. A turn awaits `settled` before others can see the effects of the writes. All queued steps are written
as one step. Decoded messages are cached. LangGraph's time travel is not supported, because only the newest checkpoint
of a thread exists.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from langchain_core.messages import AnyMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.checkpoints import ConversationSaver, message_of
from fleetwright_agent.storage.conversations import SideThread
from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.conversations.message_cache import CachedHistory, MessageCache
from fleetwright_agent.storage.sqlite.conversations.steps import (
    MESSAGES,
    CheckpointStep,
    PendingSteps,
    Writes,
    ends_with,
)
from fleetwright_agent.storage.sqlite.engine.database import Database


def _key(config: RunnableConfig) -> tuple[str, str]:
    place = config["configurable"]
    return place["thread_id"], place.get("checkpoint_ns", "")


@dataclass(frozen=True, slots=True)
class _Found:
    """The stored rows of a thread."""

    checkpoint: Sequence[Any]
    messages: Sequence[tuple[str, str, bytes]]
    """The messages after the cached messages; without a valid cache, all messages."""
    begins: bool
    """True if the stored history begins with the cached history."""
    writes: Sequence[Any]


@dataclass(frozen=True, slots=True)
class _Look:
    place: tuple[str, str]
    known: CachedHistory
    """The cached history of the thread after the read, with all of its messages."""
    found: _Found


def _read(db: sqlite3.Connection, thread: str, ns: str, known: CachedHistory) -> _Found | None:
    query = "SELECT id, kind, body, metadata_kind, metadata FROM checkpoints WHERE thread=? AND ns=?"
    checkpoint = db.execute(query, (thread, ns)).fetchone()
    if checkpoint is None:
        return None
    count = len(known.messages)
    begins = bool(count) and ends_with(db, thread, ns, count, known.messages[-1].id)
    query = "SELECT id, kind, body FROM messages WHERE thread=? AND ns=? AND position>=? ORDER BY position"
    start = count if begins else 0
    messages = db.execute(query, (thread, ns, start)).fetchall()
    query = (
        "SELECT task, channel, kind, body FROM writes WHERE thread=? AND ns=? AND checkpoint=? ORDER BY task, position"
    )
    return _Found(checkpoint, messages, begins, db.execute(query, (thread, ns, checkpoint[0])).fetchall())


class SqliteConversationSaver(ConversationSaver):
    """The checkpoint saver. Writes and long reads run on the database's thread; short reads run on the event loop."""

    def __init__(self, database: Database, *, now: Callable[[], float] = time.time) -> None:
        """Args: `now` returns the seconds since the epoch, for the time of a conversation's last use."""
        # Deserialise only LangChain's messages and plain values.
        super().__init__(serde=JsonPlusSerializer(allowed_msgpack_modules=None))
        self._database = database
        self._histories = MessageCache()
        self._gathered: dict[tuple[str, str], tuple[PendingSteps, asyncio.Future[None]]] = {}
        self._puts = 0
        self._last: _Look | None = None
        """The result of the latest read. A turn reads the checkpoint, and the graph then reads the checkpoint again."""
        database.watch(self._forget)
        self._now = now

    async def settled(self, thread: str) -> None:
        """Wait until the queued writes of that thread are on disk.

        Raises:
            MemoryUnusable: A write failed.
        """
        await self._database.settled(thread)

    async def holds(self, thread: str) -> bool:
        """Return whether the thread exists."""
        query = "SELECT 1 FROM checkpoints WHERE thread=?"
        return await self._database.look(lambda db: db.execute(query, (thread,)).fetchone() is not None, of=thread)

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        thread, ns = _key(config)
        news = MESSAGES in new_versions
        history = [*(checkpoint["channel_values"].get(MESSAGES) or ())] if news else None
        known = self._histories.begun(thread, ns, history) if history else CachedHistory()
        step = CheckpointStep(checkpoint, metadata, self._now())
        self._gathering(thread, ns).put(step, history, known=known)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",  # noqa: ARG002 - LangGraph's signature; one graph without subgraphs has no paths
    ) -> None:
        checkpoint = config["configurable"]["checkpoint_id"]
        self._gathering(*_key(config)).writes.append(Writes(checkpoint, task_id, tuple(writes)))

    def _gathering(self, thread: str, ns: str) -> PendingSteps:
        """Return the thread's pending steps. Their write has not started yet, so they can be extended."""
        place = (thread, ns)
        self._moved()
        if found := self._gathered.get(place):
            steps, done = found
            if self._database.is_waiting(done):
                return steps
        steps = PendingSteps(thread, ns)
        done = self._database.put(lambda db: steps.write(db, self.serde), of=thread)
        self._gathered[place] = steps, done
        done.add_done_callback(lambda done: self._written(steps, done))
        return steps

    def _written(self, steps: PendingSteps, done: "asyncio.Future[None]") -> None:
        place = (steps.thread, steps.ns)
        if place in self._gathered and self._gathered[place][1] is done:
            del self._gathered[place]
        # An empty cache entry means that rows were deleted meanwhile. The turn may still hold the deleted messages.
        if steps.known.messages and self._histories.get(*place) is steps.known and done.exception() is None:
            before = steps.known.messages
            self._histories.keep(*place, CachedHistory((*before, *(steps.history or ())[len(before) :]), steps.size))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        thread, ns = _key(config)
        known = self._histories.get(thread, ns)
        puts, reused = self._puts, self._taken((thread, ns), known)
        found = reused or await self._found(thread, ns, known)
        if found is None:
            self._histories.keep(thread, ns, CachedHistory())
            return None
        checkpoint_id, kind, body, metadata_kind, metadata = found.checkpoint
        checkpoint: Checkpoint = self.serde.loads_typed((kind, body))
        if history := self._decoded(thread, ns, known, found):
            checkpoint["channel_values"][MESSAGES] = history
        if reused is None and puts == self._puts:
            self._last = _Look((thread, ns), self._histories.get(thread, ns), replace(found, messages=(), begins=True))
        place: RunnableConfig = {
            "configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": checkpoint_id}
        }
        pending = [(task, channel, self.serde.loads_typed((k, b))) for task, channel, k, b in found.writes]
        described = self.serde.loads_typed((metadata_kind, metadata))
        return CheckpointTuple(place, checkpoint, described, None, pending)

    async def _found(self, thread: str, ns: str, known: CachedHistory) -> _Found | None:
        def read(db: sqlite3.Connection) -> _Found | None:
            return _read(db, thread, ns, known)

        if known.messages:
            return await self._database.look(read, of=thread)
        # Loading all messages of a conversation takes long, so the writer thread does it.
        return await self._database.read(read) if await self.holds(thread) else None

    def _taken(self, place: tuple[str, str], known: CachedHistory) -> _Found | None:
        """Return the result of the latest read, at most once, if it is still valid for this thread.

        A write or a deletion makes the result invalid.
        """
        last, self._last = self._last, None
        return last.found if last is not None and last.place == place and last.known is known else None

    def _decoded(self, thread: str, ns: str, known: CachedHistory, found: "_Found") -> list[AnyMessage]:
        before = known if found.begins else CachedHistory()
        messages = (*before.messages, *(message_of(self.serde, *row) for row in found.messages))
        size = before.size + sum(len(body) for _, _, body in found.messages)
        self._histories.keep(thread, ns, CachedHistory(messages, size))
        return [*messages]

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Yield the newest checkpoint, because only that one is stored.

        With `before`, a metadata filter or a limit of 0, yield nothing.
        """
        if config is None or before is not None or filter or limit == 0:
            return
        found = await self.aget_tuple(config)
        if found is not None:
            yield found

    async def adelete_thread(self, thread_id: str) -> None:
        await self._database.run(lambda db: threads.delete(db, thread_id))

    async def adelete_aside(self, aside: SideThread) -> None:
        await self._database.run(lambda db: threads.delete_below(db, aside.thread))
        self._database.taken_out()

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        await self._database.run(lambda db: threads.copy(db, source_thread_id, target_thread_id))
        self._forget()

    def _forget(self) -> None:
        self._histories.clear()
        self._moved()

    def _moved(self) -> None:
        self._puts, self._last = self._puts + 1, None

    def list(self, *args: Any, **kwargs: Any) -> Iterator[CheckpointTuple]:
        raise NotImplementedError("this saver is asynchronous; use alist")
