"""Conversations as wholes, their views and the data of their owners, in memory."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from fleetwright_agent.storage.conversations import (
    GONE,
    PRIOR_SESSIONS,
    ConversationUse,
    Place,
    SideThread,
    Transcript,
    conversation,
    side_threads_of,
    uses_of,
)
from fleetwright_agent.storage.erasures import ErasureTarget
from fleetwright_agent.storage.memory.tables import MemoryTables, StoredMessage, StoredThread
from fleetwright_agent.storage.usage import NOBODY, UsageSum

if TYPE_CHECKING:
    # For type checking only, because the module imports LangGraph, which is slow.
    from langchain_core.messages import AnyMessage


class MemoryConversationStore:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def last_uses(self, owner: str = "") -> list[ConversationUse]:
        names = self._tables.below(owner) if owner else self._tables.threads
        return uses_of((name, each.at) for name in names for each in self._tables.threads[name].checkpoints.values())

    async def transcript(self, owner: str, context_id: str) -> list[Transcript]:
        names = self._tables.below(conversation(owner, context_id))
        return [_transcript(name, thread) for name in names if (thread := self._tables.threads[name]).checkpoints]

    async def forget(self, places: Collection[Place]) -> None:
        for place in places:
            self._tables.delete_below(conversation(*place))
            self._tables.undelegate(*place)

    async def fork(self, owner: str, context_id: str, *, source: str) -> None:
        self._tables.forks.setdefault((owner, context_id), set()).add(source)

    async def forks(self, owner: str, source: str) -> list[str]:
        forks: dict[str, list[str]] = {}
        for (of, context_id), sources in self._tables.forks.items():
            for each in sources if of == owner else ():
                forks.setdefault(each, []).append(context_id)
        found, left = {source}, [source]
        while left:
            new = [each for each in forks.get(left.pop(), ()) if each not in found]
            found.update(new)
            left += new
        return sorted(found - {source})

    async def rename(self, owner: str, context_id: str, title: str) -> bool:
        thread = self._tables.threads.get(conversation(owner, context_id))
        if thread is None or not thread.checkpoints:
            return False
        thread.title = title
        return True

    async def titles(self, owner: str, context_ids: Collection[str]) -> dict[str, str]:
        threads = {each: self._tables.threads.get(conversation(owner, each)) for each in context_ids}
        return {context_id: thread.title for context_id, thread in threads.items() if thread and thread.title}

    async def side_threads(self) -> list[SideThread]:
        return side_threads_of(name for name, thread in self._tables.threads.items() if thread.checkpoints)

    async def forget_side_thread(self, side: SideThread) -> None:
        self._tables.delete_below(side.thread)

    async def expire_archive(self, before: float) -> int:
        gone = 0
        for thread in self._tables.threads.values():
            for message in [each for each, at in thread.archived.items() if at < before]:
                gone += _expire(thread, message)
                del thread.archived[message]
        self._tables.taken_out()
        return gone

    async def oldest_archived(self) -> float | None:
        return min((at for thread in self._tables.threads.values() for at in thread.archived.values()), default=None)

    async def count_failing_compactions(self, *, at_least: int) -> int:
        bodies = (thread.view_body for thread in self._tables.threads.values())
        return sum(1 for body in bodies if body and body.get("failures", 0) >= at_least)


class MemoryViewStore:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    def watch(self, forget: Callable[[], None]) -> None:
        self._tables.watchers.append(forget)

    async def get(self, thread: str) -> Mapping[str, Any] | None:
        stored = self._tables.threads.get(thread)
        body: Mapping[str, Any] | None = stored.view_body if stored else None
        return body

    async def put(self, thread: str, body: Mapping[str, Any], *, at: float, cut: str | None) -> None:
        stored = self._tables.thread(thread)
        stored.view = json.dumps(body)
        if cut:
            stored.archived[cut] = at

    async def failing(self, *, at_least: int) -> int:
        return await MemoryConversationStore(self._tables).count_failing_compactions(at_least=at_least)

    async def archived(self, thread: str, *, cut: str, pruned: Collection[str]) -> "Sequence[AnyMessage]":
        stored = self._tables.threads.get(thread) or StoredThread()
        messages = _messages(stored)
        last = next((place for place, each in enumerate(messages) if each.id == cut), -1)
        return _decoded([each for place, each in enumerate(messages) if place <= last or each.id in pruned])


class MemoryOwnerData:
    def __init__(self, tables: MemoryTables) -> None:
        self._tables = tables

    async def counted(self, target: ErasureTarget) -> dict[str, int]:
        threads = [self._tables.threads[name] for name in self._tables.below(_name(target))]
        counts = {
            "conversations": sum(len(thread.checkpoints) for thread in threads),
            "messages": sum(len(each.messages) for thread in threads for each in thread.checkpoints.values()),
            "sessions": sum(1 for place in self._tables.sessions if _concerns(target, *place)),
            "delegations": sum(
                1 for each in self._tables.peer_calls.values() if _concerns(target, each.owner, each.context_id)
            ),
        }
        if not target.context_id:
            counts["costs"] = sum(1 for key in self._tables.usage if key[-1] == target.owner)
        return counts

    async def erase(self, target: ErasureTarget, *, tasks: Collection[str]) -> None:
        tables = self._tables
        tables.delete_below(_name(target))
        if target.context_id:
            _scrub_prior_sessions(tables, target.owner)
        else:
            for key in [each for each in tables.usage if each[-1] == target.owner]:
                disowned = (*key[:-1], NOBODY)
                tables.usage[disowned] = tables.usage.get(disowned, UsageSum()) + tables.usage.pop(key)
        tables.sessions = {place: each for place, each in tables.sessions.items() if not _concerns(target, *place)}
        tables.questions = {
            key: each for key, each in tables.questions.items() if not _concerns(target, key.owner, key.context_id)
        }
        tables.undelegate(target.owner, target.context_id)
        tables.unfork(target.owner, target.context_id)
        for task in tasks:
            tables.inflight.pop((target.owner, task), None)


def _name(target: ErasureTarget) -> str:
    return conversation(target.owner, target.context_id) if target.context_id else target.owner


def _concerns(target: ErasureTarget, owner: str, context_id: str) -> bool:
    return owner == target.owner and target.context_id in ("", context_id)


def _messages(thread: StoredThread) -> list[StoredMessage]:
    return [message for each in thread.checkpoints.values() for message in each.messages]


def _expire(thread: StoredThread, last: str) -> int:
    """Delete the text of the messages up to `last`, except for the request that the view still shows."""
    view = (thread.view_body or {}).get("view")
    shown, gone = view["request"] if view else "", 0
    for each in thread.checkpoints.values():
        places = [place for place, message in enumerate(each.messages) if message.id == last]
        for place in range(places[0] + 1 if places else 0):
            message = each.messages[place]
            if message.id != shown and message.kind != GONE:
                each.messages[place] = replace(message, kind=GONE, body=b"")
                gone += 1
    return gone


def _transcript(name: str, thread: StoredThread) -> Transcript:
    # Imported here, because the module imports LangGraph, which is slow.
    from fleetwright_agent.storage.checkpoints import readable_message

    _, context_id, *task = name.split("\n")
    return {
        "contextId": context_id,
        **({"taskId": task[0]} if task else {}),
        "messages": [readable_message(message) for message in _decoded(_messages(thread))],
        **({"view": thread.view_body} if thread.view else {}),
    }


def _decoded(messages: Sequence[StoredMessage]) -> "list[AnyMessage]":
    # Imported here, because the module imports LangGraph, which is slow.
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    from fleetwright_agent.storage.checkpoints import message_of

    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    return [message_of(serde, each.id, each.kind, each.body) for each in messages]


def _scrub_prior_sessions(tables: MemoryTables, owner: str) -> None:
    """Remove the text about other conversations from the conversations of the owner."""
    # Imported here, because the module imports LangGraph, which is slow.
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    for name in tables.below(owner):
        thread = tables.threads[name]
        thread.writes = {key: each for key, each in thread.writes.items() if each[0] != PRIOR_SESSIONS}
        for each in thread.checkpoints.values():
            checkpoint = serde.loads_typed(each.body)
            if checkpoint["channel_values"].pop(PRIOR_SESSIONS, None):
                each.body = serde.dumps_typed(checkpoint)
