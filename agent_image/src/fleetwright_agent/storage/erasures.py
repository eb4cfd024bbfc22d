"""The ports of erasure: the record of running and finished erasures, and the data of one owner in all tables.

Every implementation guarantees:

- An erasure is recorded before anything is erased, so that a restarted process completes it.
- `OwnerData.erase` deletes threads, sessions, open questions, calls of peers and task usage, in one commit.
- In the same commit, it removes the owner's name from the cost sums. The agent's budgets need the sums.

The ports of tasks, facts, learned skills and the audit trail erase their own data.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class ErasureTarget:
    """All data of an owner, or of one of its conversations."""

    owner: str
    context_id: str = ""


@dataclass(frozen=True, slots=True)
class PendingErasure:
    number: int
    target: ErasureTarget
    asked_by: str
    at: float
    """Seconds since the epoch."""
    found: Mapping[str, int]
    """The number of entries in each store before the erasure; empty until the entries are counted."""
    forks: tuple[str, ...] = ()
    """The forks of the conversation that the erasure includes; empty until the entries are counted."""


class Erasures(Protocol):
    """The methods raise MemoryUnusable if the record cannot be read or written."""

    async def begin(self, target: ErasureTarget, *, asked_by: str, at: float) -> PendingErasure:
        """Record an erasure, and return when the record is on disk."""

    async def counted(self, begun: PendingErasure, found: Mapping[str, int], forks: Sequence[str] = ()) -> None:
        """Record the number of entries in each store, and add to the forks that the erasure includes."""

    async def finish(self, begun: PendingErasure, receipt: Mapping[str, Any]) -> None:
        """Record the receipt, which ends the erasure."""

    async def unfinished(self) -> list[PendingErasure]:
        """Return the erasures without a receipt, in the order of their start."""

    async def last(self, target: ErasureTarget) -> dict[str, Any] | None:
        """Return the newest receipt for the target."""


class OwnerData(Protocol):
    """The methods raise MemoryUnusable if the data cannot be read or written."""

    async def counted(self, target: ErasureTarget) -> dict[str, int]:
        """Return the number of the target's conversations, messages, sessions and calls of peers (`delegations`).

        For a whole owner, also return the number of cost sums.
        """

    async def erase(self, target: ErasureTarget, *, tasks: Collection[str]) -> None:
        """Erase the target's data. `tasks` holds the identifiers of the target's tasks."""
