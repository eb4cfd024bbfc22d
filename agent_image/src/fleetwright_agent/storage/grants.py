"""The port of the grants of conversations: a person permits a tool something for the rest of a conversation.

Every implementation guarantees:

- A grant is on disk before the call that it permits starts, with all earlier writes of the conversation's thread.
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
        """Store grants; they are on disk when this returns."""

    async def keys(self, owner: str, context_id: str, tool: str) -> frozenset[str]:
        """Return the keys of all grants for this tool in the conversation."""

    async def of(self, owner: str, context_id: str = "") -> list[StoredGrant]:
        """Return the grants that an owner gave, in one conversation or in all of them."""
