"""The interfaces of the stores for tasks of other agents: open questions, and tasks that no call waits for.

The questions are stored so that an answer still reaches the peer after a restart. Every implementation guarantees that
`take` returns a question at most once. Delegated tasks are stored until their results are in the conversation that
began them. This module does not call peers.
"""

from dataclasses import dataclass
from typing import Protocol


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
