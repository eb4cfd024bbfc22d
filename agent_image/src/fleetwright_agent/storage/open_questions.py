"""The interfaces of the stores for tasks of other agents: open questions, tasks that no call waits for, and calls.

The questions are stored so that an answer still reaches the peer after a restart. Every implementation guarantees that
`take` returns a question at most once. Delegated tasks are stored until their results are in the conversation that
began them. Calls are stored for administrators, and only the last ones of the agent. Every implementation guarantees
that a call which has ended or was deleted does not change any more, unless it begins again. This module does not call
peers.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, Protocol

MOST_ENDED_CALLS: Final = 50
"""The number of calls that are kept after their end, for all callers of the agent together."""
MOST_UNFINISHED_CALLS: Final = 200
"""The number of unfinished calls that are kept. If there are more, the oldest records are deleted."""


@dataclass(frozen=True, slots=True)
class QuestionKey:
    """The key of an open question. A peer has at most one open question in each conversation."""

    owner: str
    context_id: str
    peer: str
    """`<namespace>/<name>`"""


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    place: QuestionKey
    task_id: str
    """The peer's task."""
    asked_in: str
    """The task of this agent during which the peer asked."""


class OpenQuestions(Protocol):
    """The methods raise MemoryUnusable if the questions cannot be read or written."""

    async def put(self, question: OpenQuestion) -> None:
        """Store a question. It replaces the open question of the same peer and conversation."""

    async def take(self, place: QuestionKey) -> OpenQuestion | None:
        """Remove and return the question with this key."""

    async def remove(self, question: OpenQuestion) -> bool:
        """Remove exactly this question. Return False if it is not stored, or another one with the same key is."""

    async def of(self, owner: str, task_id: str) -> list[OpenQuestion]:
        """Return the questions that peers asked during a task of this agent."""

    async def all(self) -> list[OpenQuestion]:
        """Return all questions, the oldest first."""


@dataclass(frozen=True, slots=True)
class DelegatedTask:
    """A task of another agent, whose result a conversation of this agent will receive."""

    owner: str
    context_id: str
    peer: str
    """`<namespace>/<name>`"""
    task_id: str


class DelegatedTasks(Protocol):
    """The methods raise MemoryUnusable if the tasks cannot be read or written."""

    async def put(self, task: DelegatedTask) -> None:
        """Store a task. Storing it again has no effect."""

    async def of(self, owner: str, context_id: str) -> list[DelegatedTask]:
        """Return the tasks of a conversation, the oldest first."""

    async def remove(self, task: DelegatedTask) -> None:
        """Remove a task whose result the conversation has received. Removing it again has no effect."""


class PeerCallStatus(StrEnum):
    PENDING = "Pending"
    """The record was made before the request was sent, and the peer has not begun a task."""
    DISPATCHED = "Dispatched"
    """The peer has begun a task. It works on the task, or has asked a question."""
    COMPLETED = "Completed"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class PeerCall:
    """A call with which this agent asked another agent. The texts are short and contain no secrets."""

    id: str
    """Derived from the task of this agent and the call in it, so that a repeated call has the same record."""
    owner: str
    context_id: str
    task_id: str
    """The task of this agent that made the call, or that must answer a question of the peer if no call waits for it."""
    peer: str
    """`<namespace>/<name>`"""
    request: str
    began_at: float
    """Seconds since the epoch, as `ended_at`."""
    peer_task_id: str = ""
    """The peer's task; empty until it is known."""
    status: PeerCallStatus = PeerCallStatus.PENDING
    result: str = ""
    """The result or the error of a call that has ended, or the peer's open question."""
    ended_at: float | None = None


class PeerCalls(Protocol):
    """The methods raise MemoryUnusable if the calls cannot be read or written."""

    async def begin(self, call: PeerCall) -> PeerCall:
        """Store a call and return the record.

        If the call began before, its record keeps its place, its beginning and the peer's task. Calls above the limits
        are deleted: of the ended ones those that ended first, and of the others those that began first.
        """

    async def update(self, call: PeerCall) -> None:
        """Store the task ids, status, result and end of a call. A call that has ended or is not stored does not change.

        If more than MOST_ENDED_CALLS have ended, those that ended first are deleted.
        """

    async def of(self, owner: str = "", context_id: str = "") -> list[PeerCall]:
        """Return the calls of all owners, of one owner or of one conversation. The newest comes first."""

    async def expire(self, before: float) -> None:
        """Delete the calls that ended before this time, in seconds since the epoch."""

    async def oldest(self) -> float | None:
        """Return the time of the call that `expire` would delete first, in seconds since the epoch, or None."""
