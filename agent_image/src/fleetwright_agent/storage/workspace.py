"""The port of the workspace state of conversations: the files that each has read, its edits and its todos.

Every implementation guarantees:

- A read file and a list of todos survive a restart, once the commit that is queued for them is on disk. A later read
  of the same process sees them at once.
- A conversation keeps the newest `MOST_FILES` files. A file that is dropped must be read again before it is edited.
- The intended result of an edit is on disk before the edit starts, so a repeated edit is recognised after a crash.
- The data is copied and deleted with the thread of its conversation.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, Protocol

MOST_FILES: Final = 1000
MOST_EDITS: Final = 100


@dataclass(frozen=True, slots=True)
class FileVersion:
    """The contents of a file at one moment."""

    digest: str
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class Todo:
    id: str
    content: str
    status: Literal["pending", "in_progress", "completed", "cancelled"]
    priority: Literal["high", "medium", "low"]


@dataclass(frozen=True, slots=True)
class WorkspaceRecord:
    """Everything that one conversation knows of its workspace."""

    context_id: str
    files: tuple[str, ...]
    """The paths of the files, the most recently used first."""
    todos: tuple[Todo, ...]


class WorkspaceStore(Protocol):
    """The methods raise MemoryUnusable if the data cannot be read or written."""

    def record_read(self, owner: str, context_id: str, path: str, version: FileVersion) -> "asyncio.Future[None]":
        """Queue the version of a file that the conversation has read or written. The future resolves after the commit.

        The caller must not cancel the future.
        """

    async def last_read(self, owner: str, context_id: str, path: str) -> FileVersion | None:
        """Return the version of a file that the conversation has read last."""

    async def recent(self, owner: str, context_id: str, *, most: int) -> list[str]:
        """Return the paths of the files that the conversation has read or written, the newest first."""

    async def begin_edit(self, owner: str, context_id: str, call: str, digest: str) -> None:
        """Store the digest that a file will have after an edit, and return when it is on disk.

        The newest `MOST_EDITS` edits of a conversation are kept.
        """

    async def intended_digest(self, owner: str, context_id: str, call: str) -> str | None:
        """Return the digest that `begin_edit` has stored for this call."""

    async def put_todos(self, owner: str, context_id: str, todos: Sequence[Todo]) -> None:
        """Replace all todos of the conversation, and return when they are on disk."""

    async def todos(self, owner: str, context_id: str) -> list[Todo]: ...

    async def of(self, owner: str, context_id: str = "") -> list[WorkspaceRecord]:
        """Return the data of an owner, of one conversation or of all of them."""
