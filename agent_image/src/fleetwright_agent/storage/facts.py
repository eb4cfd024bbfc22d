"""The port of the facts that the agent remembers for its callers, each with its source, its time and its task.

Every implementation guarantees:

- Each call reads and writes the facts of one owner only.
- A fact and its entry in the search index are stored in one commit.
- After `erase` returns, the storage holds no trace of the erased facts.

This module does not decide which facts are worth remembering. It never presents a fact as an instruction.
"""

from dataclasses import dataclass
from typing import Protocol

from fleetwright_agent.storage.provenance import Provenance


@dataclass(frozen=True, slots=True)
class Fact:
    n: int
    text: str
    hot: bool
    """True if every turn includes the fact, and not only turns whose search finds it."""
    source: Provenance
    at: float
    """Seconds since the epoch."""


class TooManyFacts(Exception):  # noqa: N818 - states a fact
    """The owner has reached its limit of facts."""


class FactStore(Protocol):
    """The facts of all owners. The methods raise MemoryUnusable if they cannot be read or written."""

    async def remember(self, owner: str, text: str, source: Provenance, *, hot: bool, most: int) -> int:
        """Store a fact and return its number. The same text again updates the existing fact.

        Raises:
            TooManyFacts: The owner has `most` other facts.
            MemoryUnusable: Nothing is remembered.
        """

    async def recall(self, owner: str, question: str, *, most: int) -> list[Fact]:
        """Return the best matches for the question, the best first."""

    async def hot(self, owner: str, *, characters: int) -> list[Fact]:
        """Return the newest facts that are included in every turn, as many as fit into `characters`."""

    async def forget(self, owner: str, n: int) -> bool:
        """Delete a fact, and return whether it existed."""

    async def facts(self, owner: str, context_id: str = "") -> list[Fact]:
        """Return all facts, or those of one conversation, in the order of their numbers."""

    async def erase(self, owner: str, context_id: str = "") -> None:
        """Erase the facts, and remove all traces of them."""

    async def aclose(self) -> None: ...
