"""The open questions of peers: at most one for each peer in a conversation.

A question stays open until the turn that received it ends, even across restarts. A question that can no longer be
answered is closed, and the peer is notified. The number of open questions is bounded. This module does not depend on
the A2A protocol.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.open_questions import (
    DelegatedTask,
    DelegatedTasks,
    OpenQuestion,
    OpenQuestions,
    QuestionKey,
)

_MOST: Final = 1000
IsUndelivered = Callable[[OpenQuestion], Awaitable[bool]]
"""Returns whether a later turn delivers the question again, because the conversation has not received it."""


async def nothing_is_undelivered(_: OpenQuestion) -> bool:
    """Return False, for agents whose questions are always results of calls that wait."""
    return False


def undelivered_in(delegated: DelegatedTasks) -> IsUndelivered:
    """Return the check for agents with background tasks: a task stays stored until its result is delivered."""

    async def is_undelivered(question: OpenQuestion) -> bool:
        place = question.place
        task = DelegatedTask(place.owner, place.context_id, place.peer, question.task_id)
        return task in await delegated.of(place.owner, place.context_id)

    return is_undelivered


class PeerQuestions:
    def __init__(
        self,
        kept: OpenQuestions,
        give_up: Callable[[OpenQuestion], Awaitable[None]],
        *,
        is_ours: Callable[[OpenQuestion], bool] = lambda _: True,
        is_undelivered: IsUndelivered = nothing_is_undelivered,
        outlived: bool = True,
        most: int = _MOST,
    ) -> None:
        """Args:
        kept: The store. Several instances may share it.
        give_up: Notifies the peer, if possible.
        is_ours: Tells the questions of this instance from those of others.
        is_undelivered: Tells the questions that the end of a turn must not close.
        outlived: True if stored questions survive a restart.
        most: The most open questions.
        """
        self._is_ours = is_ours
        self._is_undelivered = is_undelivered
        self._outlived = outlived
        self._kept = kept
        self._give_up = give_up
        self._most = most
        self._replaced: dict[tuple[str, str], list[OpenQuestion]] = {}
        """Undelivered questions that a turn has closed, by the owner and the id of the turn's task."""
        self._leaving: set[asyncio.Task[None]] = set()

    async def put(self, question: OpenQuestion) -> None:
        """Store a question, replacing the open question of the same peer and conversation.

        Above the limit, the oldest question is closed.
        """
        await self.end(question.place, answered=question.task_id)
        await self._kept.put(question)
        others = [each for each in await self._kept.all() if each.place != question.place]
        if len(others) >= self._most:
            await self.end(others[0].place)

    async def offer(self, question: OpenQuestion) -> bool:
        """Store a question, unless another question of the same peer and conversation is open.

        Return True if the question is stored. Otherwise nothing changes.
        """
        held = [each.task_id for each in await self._kept.all() if each.place == question.place]
        if any(task_id != question.task_id for task_id in held):
            return False
        await self.put(question)
        return True

    async def end(self, place: QuestionKey, *, answered: str = "") -> None:
        """Close the open question of a peer in a conversation. Unless it was answered, notify the peer.

        While the question is undelivered, the end of its turn decides whether the peer is notified.
        """
        former = await self._kept.take(place)
        if former is None or former.task_id == answered:
            return
        if await self._is_undelivered(former):
            self._replaced.setdefault((place.owner, former.asked_in), []).append(former)
        else:
            self._beside(self._give_up(former))

    def over(self, owner: str, task_id: str) -> None:
        """Close the questions of a task that will not continue. Runs in the background; the caller does not wait.

        A question that the conversation has not received is removed, but the peer is not notified: its task continues
        to wait, and a later turn delivers the question again.
        """
        self._beside(self._end_all(owner, task_id))

    async def aclose(self) -> None:
        """Finish the notifications. If stored questions do not survive a restart, close them; else they stay open."""
        if not self._outlived:
            with suppress(MemoryUnusable):
                for question in filter(self._is_ours, await self._kept.all()):
                    if await self._kept.remove(question):
                        self._beside(self._give_up(question))
        while self._leaving:
            await asyncio.gather(*self._leaving)

    async def _end_all(self, owner: str, task_id: str) -> None:
        replaced = self._replaced.pop((owner, task_id), [])
        with suppress(MemoryUnusable):  # Readiness reports the failure; maintenance closes these questions later.
            for question in await self._kept.of(owner, task_id):
                if not self._is_ours(question):
                    continue
                is_undelivered = await self._is_undelivered(question)
                # A later turn may have stored the same question again meanwhile.
                if await self._kept.remove(question) and not is_undelivered:
                    self._beside(self._give_up(question))
            for question in replaced:
                if not await self._is_undelivered(question):
                    self._beside(self._give_up(question))

    def _beside(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)
