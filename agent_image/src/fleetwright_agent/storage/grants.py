"""The port of grants. A grant is a person's permission for certain calls of a tool in the rest of a conversation.

Every implementation guarantees:

- A grant, and all earlier writes of the conversation's thread, are on disk before the permitted call starts.
- Grants are copied and deleted with the thread of their conversation.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class StoredGrant:
    context_id: str
    tool: str
    grant: str
    """The key of the grant."""
    at: float


class GrantStore(Protocol):
    """The methods raise MemoryUnusable if the grants cannot be read or written."""

    async def put(self, owner: str, context_id: str, tool: str, keys: Collection[str]) -> None:
        """Store grants, and return when they are on disk."""

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        """Return the keys of all grants for this tool in the conversation."""

    async def of(self, owner: str, context_id: str = "") -> list[StoredGrant]:
        """Return the grants that an owner gave, in one conversation or in all of them."""
