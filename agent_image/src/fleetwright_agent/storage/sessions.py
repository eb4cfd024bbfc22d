"""The port of the sessions: one row for each earlier conversation of an owner, with its latest exchanges.

Every implementation guarantees:

- Reading a row, changing it and deleting the owner's oldest rows beyond the limit happen in one transaction.
- A read of an owner's rows includes rows whose commit is still pending.
- Every row belongs to one owner, so the text of one caller never reaches the prompt of another caller.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A tool call as the session store keeps it."""

    name: str
    args: str
    """The arguments as JSON."""
    result: str
    duration_ms: int | None
    """`None` if the process died between the call and the next step of the turn."""


@dataclass(frozen=True, slots=True)
class Session:
    context_id: str
    exchanges: list[list[str]]
    """The newest questions with their answers, both truncated."""
    updated: float
    """Seconds since the epoch."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """The last tool calls before the newest answer: name, args, result, duration_ms; also truncated."""
    tool_calls_total_count: int = 0
    trace_id: str = ""


class SessionStore(Protocol):
    def put(
        self, owner: str, context_id: str, change: Callable[[Session | None], Session], *, most: int
    ) -> "asyncio.Future[None]":
        """Queue a change of a row, and return a future that resolves after the commit.

        Args:
            change: Returns the new row for the stored row. It may run twice, and outside of the event loop.
            most: The maximum number of rows of an owner. Beyond it, the least recently updated rows are deleted.
        """

    async def written(self, writing: "asyncio.Future[None]") -> None:
        """Commit one change now, and return when the commit has succeeded or failed. The future holds the result.

        Raises:
            MemoryUnusable: The storage is closed.
        """

    async def newest(self, owner: str, *, but: str, most: int) -> list[Session]:
        """Return the most recently updated rows of an owner, except for the row of the conversation `but`."""

    async def of(self, owner: str, context_id: str = "") -> list[Session]:
        """Return all sessions of an owner, or the session of one conversation, the newest first."""

    async def expire(self, before: float) -> None:
        """Delete the sessions last updated before that time, in seconds since the epoch."""

    async def oldest(self) -> float | None:
        """Return the time of the least recent update of a session, or None."""
