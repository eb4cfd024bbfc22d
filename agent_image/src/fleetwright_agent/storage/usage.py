"""The ports for the cost of model calls: sums by hour, model, purpose and caller, and the usage of running turns.

Every implementation guarantees:

- The cost of a call, and its line in the usage of its task, are one commit.
- Writes are stored in the order in which they were queued, also in relation to other data. So the cost of a call is on
  disk before the checkpoint that follows the call.
- Every process has its own sums, which equal what its metrics have counted since its start. Amounts are not rounded.

The task log stores the end of a turn a moment later than these stores do. Until then, they keep the usage of the turn.
These ports do not interpret a cost.
"""

import asyncio
from dataclasses import astuple, dataclass
from decimal import Decimal
from typing import Any, Final, Protocol

NOBODY: Final = "(erased)"
"""The caller of sums whose owner was erased."""


@dataclass(frozen=True, slots=True)
class UsageSum:
    """The sum over many calls; `unpriced` counts those without a price."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    unpriced: int = 0
    usd: Decimal = Decimal(0)

    @property
    def is_priced(self) -> bool:
        """True if at least one call has a price."""
        return self.calls > self.unpriced

    def __add__(self, other: "UsageSum") -> "UsageSum":
        pairs = zip(astuple(self), astuple(other), strict=True)
        return UsageSum(*(one + another for one, another in pairs))


@dataclass(frozen=True, slots=True)
class ModelCallUsage:
    """One model call. `usd` is `None` if the model has no price."""

    model: str
    purpose: str
    caller: str
    input_tokens: int
    output_tokens: int
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    usd: Decimal | None = None

    @property
    def sum(self) -> UsageSum:
        """The call as a sum of one call."""
        return UsageSum(
            1,
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
            int(self.usd is None),
            self.usd or Decimal(0),
        )


@dataclass(frozen=True, slots=True)
class TaskUsageLine:
    """The same call in the usage of its task, as JSON."""

    owner: str
    task_id: str
    body: Any
    call: str = ""
    """The identifier of the call, if it was recorded before the call started."""

    @property
    def stored_body(self) -> Any:
        """The body with the identifier of the call."""
        return {**self.body, "call": self.call} if self.call else self.body


@dataclass(frozen=True, slots=True)
class HourlyUsage:
    """The cost of one caller's calls to one model within an hour, for one purpose."""

    hour: float
    """The start of the hour, in seconds since the epoch."""
    model: str
    purpose: str
    sum: UsageSum


@dataclass(frozen=True, slots=True)
class DailyUsage:
    """The cost of one caller's calls to one model within a day (UTC), for one purpose."""

    day: float
    """The start of the day, in seconds since the epoch."""
    caller: str
    model: str
    purpose: str
    sum: UsageSum


@dataclass(frozen=True, slots=True)
class TotalUsage:
    """The cost of all calls of one caller to one model, for one purpose."""

    model: str
    purpose: str
    caller: str
    sum: UsageSum


class UsageStore(Protocol):
    """The methods raise MemoryUnusable if the sums cannot be read or written."""

    def put(self, entry: ModelCallUsage, line: TaskUsageLine) -> "asyncio.Future[None]":
        """Queue the cost without waiting for the write. Data that is queued later is written after the cost."""

    async def has_charged(self, owner: str, task_id: str, call: str) -> bool:
        """Return whether the stored usage of the task contains the cost of the call."""

    async def since(self, seconds: float) -> UsageSum:
        """Return the sum of all processes' usage since the beginning of the hour that contains this time."""

    def put_call_sizes(self, body: Any) -> None:
        """Queue the sizes of the known calls, as JSON, without waiting for the write. They replace the stored ones."""

    async def call_sizes(self) -> Any:
        """Return the stored sizes of the known calls, or None before the first write."""

    async def of_this_life(self) -> dict[str, UsageSum]:
        """Return the sums of this process by model."""

    async def totals(self) -> list[TotalUsage]:
        """Return the usage of all processes, summed by model, purpose and caller, in the order of the first calls."""

    async def of(self, caller: str) -> list[HourlyUsage]:
        """Return the sums of a caller, the oldest first. Each process has its own sums."""

    async def daily(self, since: float) -> list[DailyUsage]:
        """Return the sums of all callers by day, from the day that contains `since` on, the oldest first.

        The sums of one day are sorted by caller, model and purpose.
        """

    def put_task_outcomes(self, body: Any) -> None:
        """Queue the outcomes of the last tasks, as JSON, without waiting for the write. They replace older ones."""

    async def task_outcomes(self) -> Any:
        """Return the stored outcomes of the last tasks, or None before the first write."""


class InflightUsage(Protocol):
    """The methods raise MemoryUnusable if the usage cannot be read or written."""

    def begin(self, owner: str, task_id: str, *, before: float) -> None:
        """Start a new turn of the task; delete its earlier costs and those of turns that ended before `before`."""

    async def add(self, owner: str, task_id: str, body: Any) -> None:
        """Add a line to the usage of a turn, and return when it is on disk."""

    def put(self, owner: str, task_id: str, body: Any) -> None:
        """Queue a line of usage without waiting for the write. `settled` waits until it is on disk."""

    async def settled(self, owner: str, task_id: str) -> None:
        """Wait until the queued costs of that turn are on disk."""

    async def of(self, owner: str, task_id: str) -> list[Any]:
        """Return the lines of a turn, in order."""

    async def tasks(self) -> list[tuple[str, str]]:
        """Return the owner and id of every task with stored costs."""

    def end(self, owner: str, task_id: str, *, at: float) -> None:
        """Mark the turn as ended. If this write fails, maintenance deletes the costs of the turn."""

    async def forget(self, owner: str, task_id: str) -> None:
        """Delete the usage of a task."""
