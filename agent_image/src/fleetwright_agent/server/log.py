"""The port of the task log: tasks as append-only logs of events, durable, keyed by owner.

What every implementation keeps: a claim and the first record share one commit; nothing is appended to a task
that is not busy; `busy` alone says which tasks a restart interrupted. Refuses: A2A decisions of any kind.
"""

from dataclasses import dataclass
from typing import Protocol

from a2a.types.a2a_pb2 import Task, TaskState

from fleetwright_agent.server.events import Event
from fleetwright_agent.server.push.port import PushStore


class LogUnusable(Exception):  # noqa: N818 - states a fact about the log, and reads so where it is raised
    """The log cannot be opened or written; the text tells a person what to do and is no caller's business."""


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


class TaskLog(Protocol):
    @property
    def pushes(self) -> PushStore:
        """What is kept with the tasks for whoever wants to hear of them."""

    @property
    def problem(self) -> str | None:
        """Why the log cannot be relied on right now, for people; nothing when it can."""

    async def open(self) -> None:
        """Raises: LogUnusable."""

    async def known(self, claim: Claim) -> Known | None:
        """The task that this very message was sent for before."""

    async def accept(self, claim: Claim, task: Task, *, at_ns: int) -> Accepted | Known:
        """Makes the task busy with `task` as its record 1, once per claim. Returns after the commit."""

    async def resume(self, claim: Claim, stored: Stored, record: Record) -> Accepted | Known | NotResting:
        """Makes an interrupted task busy again with the message that continues it. Returns after the commit."""

    def append(self, n: int, record: Record) -> None:
        """Writes soon, in order; lost if the process dies before. Never raises: see `problem`."""

    async def rest(self, n: int, records: tuple[Record, ...], task: Task) -> None:
        """Writes the last records and the whole task, and frees it. Returns after the commit.

        Raises:
            LogUnusable: Nothing was written.
        """

    async def end(self, stored: Stored, record: Record, task: Task) -> bool:
        """Ends an interrupted task that is still where it was seen. Returns after the commit."""

    async def find(self, owner: str, task_id: str) -> Stored | None: ...

    async def page(self, query: Query) -> Page: ...

    async def busy(self) -> tuple[Stored, ...]:
        """Tasks that were running when the process before this one ended."""

    async def paused(self, since_ns: int) -> tuple[Stored, ...]:
        """Tasks that wait for their callers, and have not waited since before that moment."""

    async def sweep(self, before_ns: int) -> int:
        """Forgets tasks that ended before, with all that hangs on them; returns how many. Interrupted ones stay."""

    async def aclose(self) -> None: ...
