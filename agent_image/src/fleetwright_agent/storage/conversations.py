"""The port of whole stored conversations: their last use, their retention and their transcripts.

A conversation is one LangGraph thread. While one of its tasks waits for a person, the conversation may continue. The
task's messages are then moved to a separate thread, and the task resumes there. The names of the threads of a task's
sub-agents begin with the name of this separate thread. Every implementation guarantees:

- A thread is copied or deleted in one commit: checkpoint, messages, node outputs, tool calls, view, archive, grants,
  and what the conversation knows of its workspace.
- `forget` deletes all of the given conversations in one commit.
- A conversation stays a fork of its source until the fork is erased. `forget` deletes neither facts, learned skills
  nor audit lines of a fork, so an erasure of the source must still find the fork. An erasure of a fork must include
  the forks of this fork, because only the fork connects them with its source.
- When the archive expires, messages that a view still shows keep their text.

This port does not know which conversations are in use; `idle` and `beyond` take those as the argument `busy`.
"""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, Protocol

Place = tuple[str, str]
"""Owner and context."""
Transcript = dict[str, Any]
"""A conversation as people read it: messages, tool calls, and the summary of its older part."""
GONE: Final = "gone"
"""The kind of a stored message whose text was deleted."""
PRIOR_SESSIONS: Final = "prior_sessions"
"""The channel of a checkpoint that holds text about other conversations of the owner."""


@dataclass(frozen=True, slots=True)
class SideThread:
    """A task with data outside the thread of its conversation."""

    owner: str
    context_id: str
    task_id: str

    @property
    def thread(self) -> str:
        # No part can contain a line break: the server only accepts printable identifiers.
        return f"{self.owner}\n{self.context_id}\n{self.task_id}"

    def delegated(self, call: str) -> str:
        """Return the name of the thread of a sub-agent. Args: `call` is the tool call that started the sub-agent."""
        # A provider chooses the ids of calls and may use any characters; a hash contains no line break.
        return f"{self.thread}\n{hashlib.sha256(call.encode()).hexdigest()[:32]}"


def conversation(owner: str, context_id: str) -> str:
    """Return the thread of a conversation."""
    return f"{owner}\n{context_id}"


@dataclass(frozen=True, slots=True)
class ConversationUse:
    owner: str
    context_id: str
    used: float
    """The time of the last use, in seconds since the epoch. A use of a task's separate thread counts too."""

    @property
    def place(self) -> Place:
        return self.owner, self.context_id


def uses_of(threads: Iterable[tuple[str, float]]) -> list[ConversationUse]:
    """Return the conversations of these threads with their times of use, the least recently used first."""
    used: dict[Place, float] = {}
    for thread, at in threads:
        owner, context_id = thread.split("\n")[:2]
        used[owner, context_id] = max(at, used.get((owner, context_id), 0.0))
    return sorted((ConversationUse(*place, at) for place, at in used.items()), key=lambda each: each.used)


def side_threads_of(threads: Iterable[str]) -> list[SideThread]:
    """Return every task that has a separate thread, or threads of sub-agents, among these threads."""
    found = (SideThread(*parts[:3]) for thread in threads if len(parts := thread.split("\n")) >= 3)
    return list(dict.fromkeys(found))


def idle(oldest_first: Iterable[ConversationUse], *, before: float, busy: Collection[Place]) -> list[Place]:
    """Return the conversations that were not used since that time and are not busy."""
    return [each.place for each in oldest_first if each.used < before and each.place not in busy]


def beyond(oldest_first: Collection[ConversationUse], *, most: int, busy: Collection[Place]) -> list[Place]:
    """Return the conversations to delete so that each owner keeps `most`: the least recently used that are not busy."""
    over = Counter(each.owner for each in oldest_first)
    found: list[Place] = []
    for each in oldest_first:
        if over[each.owner] > most and each.place not in busy:
            over[each.owner] -= 1
            found.append(each.place)
    return found


class ConversationStore(Protocol):
    """The methods raise MemoryUnusable if the conversations cannot be read or written."""

    async def last_uses(self, owner: str = "") -> list[ConversationUse]:
        """Return all conversations, or those of one owner, the least recently used first."""

    async def transcript(self, owner: str, context_id: str) -> list[Transcript]:
        """Return the transcripts of a conversation and of its tasks' separate threads. Imports LangGraph."""

    async def forget(self, places: Collection[Place]) -> None:
        """Delete conversations with their views, archives, journals and separate threads. They remain forks."""

    async def fork(self, owner: str, context_id: str, *, source: str) -> None:
        """Record the direct source of a fork."""

    async def forks(self, owner: str, source: str) -> list[str]:
        """Return the conversations that were forked from this one, directly or through another fork."""

    async def rename(self, owner: str, context_id: str, title: str) -> bool:
        """Store the title of a conversation, and return when it is on disk. Return False if there is no such one."""

    async def titles(self, owner: str, context_ids: Collection[str]) -> dict[str, str]:
        """Return the titles of those of the conversations that have one."""

    async def side_threads(self) -> list[SideThread]:
        """Return every task with a separate thread, or with threads of its sub-agents."""

    async def forget_side_thread(self, side: SideThread) -> None:
        """Delete a separate thread and the threads of its sub-agents."""

    async def expire_archive(self, before: float) -> int:
        """Delete the text of messages archived before `before`, in seconds since the epoch, and return their number.

        The positions of the messages stay.
        """

    async def oldest_archived(self) -> float | None:
        """Return the time of the oldest archived message, in seconds since the epoch, or None."""

    async def count_failing_compactions(self, *, at_least: int) -> int:
        """Return how many conversations have had that many failed compactions since the last success."""
