"""What peers ask before they go on, and who may answer: one question of each peer in a conversation waits at most.

A question waits as long as the turn in which it was asked, over restarts too; what nobody will answer any more is given
up, and the peer told. Refuses: more than so many questions, and to know a protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from fleetwright_agent.storage.sqlite.engine.database import MemoryUnusable
from fleetwright_agent.storage.sqlite.open_questions import OpenQuestions, Place, Question

_MOST: Final = 1000


class Questions:
    def __init__(
        self,
        kept: OpenQuestions,
        give_up: Callable[[Question], Awaitable[None]],
        *,
        outlived: bool = True,
        most: int = _MOST,
    ) -> None:
        """Args: `give_up` tells the peer, as far as it can be told; `outlived` says whether the next process knows what
        is open.
        """
        self._outlived = outlived
        self._kept = kept
        self._give_up = give_up
        self._most = most
        self._leaving: set[asyncio.Task[None]] = set()

    async def put(self, question: Question) -> None:
        """In the place of the one that is there, if there is one; of too many the oldest goes."""
        await self.end(question.place, answered=question.task_id)
        await self._kept.put(question)
        others = [each for each in await self._kept.all() if each.place != question.place]
        if len(others) >= self._most:
            await self.end(others[0].place)

    async def end(self, place: Place, *, answered: str = "") -> None:
        """Nothing waits in that place any more: the question that is answered, and given up is any other."""
        former = await self._kept.take(place)
        if former is not None and former.task_id != answered:
            self._beside(self._give_up(former))

    def over(self, owner: str, task_id: str) -> None:
        """The task goes on no more: what was asked in it is not answered. Beside whoever says so, who need not wait."""
        self._beside(self._end_all(owner, task_id))

    async def aclose(self) -> None:
        """What is open stays so for the next process, where there is one that knows of it."""
        if not self._outlived:
            with suppress(MemoryUnusable):
                for question in await self._kept.all():
                    await self.end(question.place)
        while self._leaving:
            await asyncio.gather(*self._leaving)

    async def _end_all(self, owner: str, task_id: str) -> None:
        with suppress(MemoryUnusable):  # Readiness tells it; upkeep finds what was left.
            for question in await self._kept.of(owner, task_id):
                await self.end(question.place)

    def _beside(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
