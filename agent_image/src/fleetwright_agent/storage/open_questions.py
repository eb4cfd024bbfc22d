"""The port of the unanswered questions of peers. They are stored so that a restart loses no answer.

Every implementation guarantees that a question is taken at most once. This module does not know peers.
"""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class QuestionKey:
    """A slot for one open question of a peer."""

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
    """The task of this agent's caller, in which the question came up."""


class OpenQuestions(Protocol):
    """The methods raise MemoryUnusable if the questions cannot be read or written."""

    async def put(self, question: OpenQuestion) -> None:
        """Store a question; it replaces an earlier one of the same slot."""

    async def take(self, place: QuestionKey) -> OpenQuestion | None:
        """Remove and return the question of a slot."""

    async def of(self, owner: str, task_id: str) -> list[OpenQuestion]:
        """Return the questions of a task."""

    async def all(self) -> list[OpenQuestion]:
        """Return all questions, the oldest first."""
