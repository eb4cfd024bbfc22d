"""The port of the journal of tool calls: a call happens at most once, even if the process crashes.

A journal belongs to a thread of a conversation, and keeps only the calls of the current turn. Every implementation
guarantees:

- Before a call starts, its start and all queued checkpoints of its thread are on disk. So the message that requested
  the call is on disk too.
- The result of a call is queued in order, and is on disk before the caller sees any effect of the call.
- The result of a sub-agent and the deletion of the sub-agent's unfinished calls are one commit.

A call that started and has no stored result is never repeated.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class CallState(StrEnum):
    WAITING = "waiting"
    """Waits for a person; the tool has not been called."""
    BEGUN = "begun"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    state: CallState
    body: Any = None


@dataclass(frozen=True, slots=True)
class StartedCall:
    """A call that has started."""

    tool: str
    arguments: Mapping[str, Any]


class ToolJournal(Protocol):
    """The methods raise MemoryUnusable if the journal cannot be read or written."""

    async def put(self, thread: str, call: str, state: CallState, body: Any = None) -> None:
        """Store the state of a call, and return when it is on disk with all earlier writes of the thread."""

    def done(self, thread: str, call: str, body: Any) -> "asyncio.Future[None]":
        """Queue a result, and return a future that resolves after the commit.

        Until then, the outcome of the call counts as unknown.
        """

    async def settled(self, thread: str) -> None:
        """Wait until all writes of the thread are on disk."""

    async def begin(self, thread: str, call: str, begun: StartedCall) -> None:
        """Store that a call starts, and return when this is on disk, like `put`."""

    async def get(self, thread: str, call: str) -> JournalEntry | None: ...

    async def settle(self, thread: str, call: str, body: Any) -> None:
        """Store the result of the sub-agent with this thread, and delete its calls that started and never returned."""

    async def begun(self, thread: str, *, below: str) -> list[StartedCall]:
        """Return the calls without a result, in `thread` and in the threads whose names equal or extend `below`."""

    def forget(self, thread: str) -> None:
        """Delete the calls of the previous turn when a new turn begins. The deletion is queued like a result."""
