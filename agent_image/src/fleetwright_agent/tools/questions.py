"""What peers ask before they go on, and who may answer: one question of each peer in a conversation waits at most.

A question waits as long as the turn in which it was asked; what nobody will answer any more is given up, and the peer
told. Refuses: more than so many questions, and to know a protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.turn.frames import TurnRequest

_MOST: Final = 1000


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer may have one question open."""

    owner: str
    context_id: str
    peer: str


@dataclass(frozen=True, slots=True)
class Question:
    task_id: str
    """The peer's."""
    asked_in: str
    """The task of this agent's caller."""
    give_up: Callable[[], Awaitable[None]]


class Questions:
    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._open: dict[Place, Question] = {}
        self._leaving: set[asyncio.Task[None]] = set()

    def put(self, place: Place, question: Question) -> None:
        """In the place of the one that is there, if there is one; of too many the oldest goes."""
        self.end(place, answered=question.task_id)
        self._open[place] = question
        if len(self._open) > self._most:
            self.end(next(iter(self._open)))

    def end(self, place: Place, *, answered: str = "") -> Question | None:
        """Nothing waits in that place any more: the question that is answered, and given up is any other."""
        former = self._open.pop(place, None)
        if former is None or former.task_id == answered:
            return former
        self._give_up(former)
        return None

    def over(self, request: TurnRequest) -> None:
        """The turn has come to its end: what was asked in it is not answered any more."""
        for place, question in list(self._open.items()):
            if (place.owner, question.asked_in) == (request.owner, request.task_id):
                self.end(place)

    async def aclose(self) -> None:
        for place in list(self._open):
            self.end(place)
        await asyncio.gather(*self._leaving)

    def _give_up(self, question: Question) -> None:
        """Beside the turn, whose answer must not wait for it."""
        task = asyncio.ensure_future(question.give_up())
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
