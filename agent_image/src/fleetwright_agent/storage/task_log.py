"""The port of the task log: tasks as append-only logs of events, durable, keyed by owner.

What every implementation keeps: a claim and the first record share one commit; nothing is appended to a task
that is not busy; `busy` alone says which tasks a restart interrupted. Refuses: A2A decisions of any kind.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol, Self

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_agent.protocol.task_events import Event
from fleetwright_agent.storage.push_store import PushStore

MOST_OF_PAGE: Final = 4 * 1024 * 1024
"""Bytes of tasks, from which on a page of a list takes no further one."""


class LogUnusable(Exception):  # noqa: N818 - states a fact about the log, and reads so where it is raised
    """The log cannot be opened or written; the text tells a person what to do and is no caller's business."""


class AtRest(LogUnusable):
    """The task rests in the log already, by whatever end came first."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One message of one owner: the same content under the same identifier is the same request, sent again."""

    owner: str
    message_id: str
    digest: bytes


@dataclass(frozen=True, slots=True)
class Accepted:
    n: int
    """The task's number in the log."""


@dataclass(frozen=True, slots=True)
class Known:
    """The claim was made before, for this task."""

    task_id: str


@dataclass(frozen=True, slots=True)
class TooManyWait:
    """The owner has as many tasks that wait for it as it may have."""


@dataclass(frozen=True, slots=True)
class NotResting:
    """The task is running, or has ended; it takes no further message."""


@dataclass(frozen=True, slots=True)
class Record:
    seq: int
    at_ns: int
    event: Event


@dataclass(frozen=True, slots=True)
class Stored:
    """A task as the log knows it, events after its snapshot folded in."""

    n: int
    owner: str
    seq: int
    busy: bool
    task: Task
    updated_ns: int = 0
    """When something last happened to it, whatever its status says of that."""
    taken_up: int = 0
    """How many processes in a row have taken it up that did not end in good order, this one counted."""
    began_ns: int | None = None
    """When the work for its newest message began, as if no time had passed between processes."""
    lost: bool = False
    """What was written of it cannot be read any more; the task says so."""


@dataclass(frozen=True, slots=True)
class Position:
    """A place in an owner's list, newest first."""

    updated_ns: int
    task_id: str


@dataclass(frozen=True, slots=True)
class Query:
    owner: str
    size: int
    context_id: str = ""
    state: TaskState = TaskState.TASK_STATE_UNSPECIFIED
    since_ns: int = 0
    after: Position | None = None


@dataclass(frozen=True, slots=True)
class Page:
    tasks: tuple[Stored, ...]
    following: Position | None
    """Where the next page starts; nothing on the last one."""
    total: int

    @classmethod
    def of(cls, found: Iterable[tuple[Position, Stored]], *, size: int, total: int) -> Self:
        """The first of them: so many, or fewer where they are large. At least one, however large."""
        tasks: list[Stored] = []
        last, room = None, MOST_OF_PAGE
        for position, stored in found:
            if len(tasks) == size or room <= 0:
                return cls(tuple(tasks), last, total)
            tasks.append(stored)
            last, room = position, room - stored.task.ByteSize()
        return cls(tuple(tasks), None, total)


@dataclass(frozen=True, slots=True)
class Key:
    """Which task it is, without the task."""

    owner: str
    task_id: str


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What hung on tasks that were forgotten."""

    tasks: int = 0
    registrations: int = 0
    """Of push notifications."""


class TaskLog(Protocol):
    @property
    def pushes(self) -> PushStore:
        """What is kept with the tasks for whoever wants to hear of them."""

    @property
    def problem(self) -> str | None:
        """Why the log cannot be relied on right now, for people; nothing when it can."""

    @property
    def damaged(self) -> int:
        """Of how many tasks that cannot be read any more what was written is kept aside."""

    async def open(self) -> None:
        """Raises: LogUnusable."""

    async def known(self, claim: Claim) -> Known | None:
        """The task that this very message was sent for before."""

    async def is_reused(self, claim: Claim) -> bool:
        """Whether its identifier has stood for other content of the same owner too."""

    async def accept(
        self, claim: Claim, task: Task, *, at_ns: int, most_waiting: int | None = None, also: Claim | None = None
    ) -> Accepted | Known | TooManyWait:
        """Makes the task busy with `task` as its record 1, once per claim. Returns after the commit.

        Args:
            also: Another name of the same message, which is claimed with it.
            most_waiting: How many tasks of the owner may wait for it; with as many of them no other begins.
        """

    async def resume(self, claim: Claim, stored: Stored, records: tuple[Record, ...]) -> Accepted | Known | NotResting:
        """Makes an interrupted task busy again with what continues it. Returns after the commit."""

    def began(self, n: int, at_ns: int, *, again: bool) -> None:
        """That the work for the newest message began: written soon, unless that is known already. Never raises.

        Args: `again` where a former process had the task: it may have ended that one, and is noted at once.
        """

    def alive(self, at_ns: int) -> None:
        """That the process lives: the time until the next one is no task's. Written soon; never raises."""

    def append(self, n: int, record: Record) -> None:
        """Writes soon, in order; lost if the process dies before. Never raises: see `problem`."""

    def leave(self, n: int) -> None:
        """The process ends in good order and leaves the task to the next, which counts anew. Never raises."""

    async def rest(self, n: int, records: tuple[Record, ...], task: Task, *, expires_ns: int | None = None) -> None:
        """Writes the last records and the whole task, and frees it. Returns after the commit.

        Args:
            expires_ns: Until when it may wait for its caller; without it for as long as that takes.

        Raises:
            AtRest: So it was before; nothing was written.
            LogUnusable: Nothing was written, as far as the log knows.
        """

    async def end(self, stored: Stored, record: Record, task: Task) -> bool:
        """Ends an interrupted task that is still where it was seen. Returns after the commit."""

    async def find(self, owner: str, task_id: str) -> Stored | None: ...

    async def page(self, query: Query) -> Page: ...

    async def busy(self) -> tuple[Key, ...]:
        """Tasks that were running when the process before this one ended, in the order of their acceptance."""

    async def expired(self, now_ns: int) -> tuple[Key, ...]:
        """Tasks that wait for their callers, and may not any longer."""

    async def sweep(self, before_ns: int) -> int:
        """Forgets tasks that ended before, with all that hangs on them; returns how many. Interrupted ones stay."""

    async def of(self, owner: str, context_id: str = "") -> tuple[Key, ...]:
        """Every task of an owner, or those of one conversation, in the order of their acceptance.

        What was asked to be accepted before is among them, whether or not it is on disk by now.
        """

    async def held(self) -> frozenset[tuple[str, str]]:
        """Owner and context of every task that runs or waits."""

    async def counted(self, owner: str, context_id: str = "") -> Forgotten:
        """What `forget` would find."""

    async def forget(self, owner: str, context_id: str = "") -> None:
        """Forgets tasks in any state, with all that hangs on them. Returns after the commit."""

    async def scrub(self) -> None:
        """Leaves nothing on the volume of what was forgotten, and gives its room back."""

    async def aclose(self) -> None: ...
