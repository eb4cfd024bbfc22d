"""The port of what the task log keeps for push: who wants to hear of a task, and the outbox.

What every implementation keeps: the record with which a task comes to rest and the letters that tell of it share one
commit; the letters of one registration go out in their order; a registration goes with its task, and its letters with
it. Refuses: addresses, credentials in clear, and time of its own.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Protocol

from a2a.types.a2a_pb2 import Task

FAR_NS: Final = 60_000_000_000
"""No letter is put off for longer; one that seems to be is due, for a clock has jumped."""


@dataclass(frozen=True, slots=True)
class Registration:
    """Where somebody wants to hear of one task."""

    id: str
    url: str
    host: str
    """Host and port of the URL in one spelling."""
    dialect: str
    """The version of the protocol it was registered in; its letters are written in it."""
    sealed: bytes = field(repr=False)
    """Its credentials, encrypted; empty where there are none."""


@dataclass(frozen=True, slots=True)
class Held:
    """A registration and whose it is."""

    n: int
    owner: str
    task_id: str
    registration: Registration


@dataclass(frozen=True, slots=True)
class Letter:
    """A task as it came to rest, for one registration."""

    id: int
    owner: str
    registration: Registration
    attempts: int
    """Those that were made."""
    task: Task


@dataclass(frozen=True, slots=True)
class Dead:
    """A letter that was given up."""

    task_id: str
    host: str
    reason: str
    at_ns: int


class NoTask(Exception):  # noqa: N818 - states a fact
    """The task has been forgotten meanwhile."""


class PushStore(Protocol):
    async def register(self, n: int, registration: Registration, *, at_ns: int, most: int) -> bool:
        """Adds or replaces a registration of the task, unless it has `most` others. Returns after the commit.

        A task that has ended already is told of at once: whoever registers just missed it.

        Raises:
            NoTask: There is nothing to hear of, and never will be.
        """

    async def registrations(self, n: int) -> tuple[Registration, ...]:
        """By their ids."""

    async def sealed_otherwise(self, mark: bytes, *, after: tuple[int, str], most: int) -> tuple[Held, ...]:
        """Registrations whose seals do not begin with the mark, in order of task and id, from behind this one on."""

    async def reseal(self, held: Held, sealed: bytes) -> None:
        """Unless it has been registered anew meanwhile."""

    async def remove(self, n: int, registration_id: str) -> bool:
        """With its letters; says whether there was one."""

    async def listened_to(self) -> frozenset[int]:
        """The numbers of tasks with registrations."""

    async def due(
        self,
        now_ns: int,
        *,
        but: Collection[int],
        hosts_but: Collection[str],
        owners_but: Collection[str],
        most: int,
    ) -> tuple[Letter, ...]:
        """Letters to deliver now, the first of each registration; none of these, of these owners, to these hosts."""

    async def next_due_ns(self, *, but: Collection[int]) -> int | None:
        """When the next letter is due that is not among these."""

    async def delivered(self, letter: int) -> None: ...

    async def put_off(self, letter: int, *, until_ns: int) -> None:
        """Counts an attempt."""

    async def give_up(self, letter: int, *, reason: str, at_ns: int) -> None:
        """Keeps the letter as dead, without what it said."""

    async def dead(self, *, most: int) -> tuple[int, tuple[Dead, ...]]:
        """How many there are, and the newest."""
