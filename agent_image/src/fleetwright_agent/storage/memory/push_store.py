"""Registrations and outbox in memory, for the task log that ends with its process."""

from collections.abc import Callable, Collection, Set
from dataclasses import dataclass, replace

from a2a.types.a2a_pb2 import Task

from fleetwright_agent.storage.tasks.push_store import (
    FAR_NS,
    Notification,
    Registration,
    StoredRegistration,
    UndeliveredNotification,
)


@dataclass(frozen=True, slots=True)
class TaskOfRegistrations:
    """The data of a task that the push store needs."""

    owner: str
    task_id: str
    ended: Task | None = None
    """The whole task, if it has ended."""


@dataclass(slots=True)
class _Kept:
    n: int
    letter: Notification
    due_ns: int | None
    dead: UndeliveredNotification | None = None


class MemoryPushStore:
    """The in-memory push store.

    Args:
        find: Returns the task of that number, and raises UnknownTask if there is no such task.
    """

    def __init__(self, find: Callable[[int], TaskOfRegistrations]) -> None:
        self._find = find
        self._registered: dict[int, dict[str, Registration]] = {}
        self._letters: dict[int, _Kept] = {}
        self._last = 0

    def post_rest(self, n: int, *, owner: str, at_ns: int, task: Task) -> None:
        for registration in self._registered.get(n, {}).values():
            self._post(n, owner, registration, at_ns, task)

    def forget(self, gone: Set[int]) -> None:
        for n in gone:
            self._registered.pop(n, None)
        self._letters = {number: kept for number, kept in self._letters.items() if kept.n not in gone}

    def forget_dead(self, before_ns: int) -> None:
        self._letters = {
            number: kept for number, kept in self._letters.items() if not kept.dead or kept.dead.at_ns >= before_ns
        }

    def _post(self, n: int, owner: str, registration: Registration, at_ns: int, task: Task) -> None:
        self._last += 1
        self._letters[self._last] = _Kept(n, Notification(self._last, owner, registration, 0, task), at_ns)

    async def register(self, n: int, registration: Registration, *, at_ns: int, most: int) -> bool:
        task = self._find(n)
        mine = self._registered.setdefault(n, {})
        if registration.id not in mine and len(mine) >= most:
            return False
        mine[registration.id] = registration
        if task.ended:
            self._post(n, task.owner, registration, at_ns, task.ended)
        return True

    async def registrations(self, n: int) -> tuple[Registration, ...]:
        return tuple(each for _, each in sorted(self._registered.get(n, {}).items()))

    async def sealed_otherwise(
        self, mark: bytes, *, after: tuple[int, str], most: int
    ) -> tuple[StoredRegistration, ...]:
        found = sorted(
            (n, each.id)
            for n, registered in self._registered.items()
            for each in registered.values()
            if each.sealed and not each.sealed.startswith(mark) and (n, each.id) > after
        )
        return tuple(self._stored(n, registration_id) for n, registration_id in found[:most])

    def _stored(self, n: int, registration_id: str) -> StoredRegistration:
        task = self._find(n)
        return StoredRegistration(n, task.owner, task.task_id, self._registered[n][registration_id])

    async def reseal(self, held: StoredRegistration, sealed: bytes) -> None:
        mine, name = self._registered.get(held.n, {}), held.registration.id
        if name in mine and mine[name].sealed == held.registration.sealed:
            mine[name] = replace(mine[name], sealed=sealed)

    async def remove(self, n: int, registration_id: str) -> bool:
        self._letters = {number: kept for number, kept in self._letters.items() if not _is_of(kept, n, registration_id)}
        return self._registered.get(n, {}).pop(registration_id, None) is not None

    async def listened_to(self) -> frozenset[int]:
        return frozenset(n for n, registered in self._registered.items() if registered)

    async def due(
        self,
        now_ns: int,
        *,
        but: Collection[int],
        hosts_but: Collection[str],
        owners_but: Collection[str],
        most: int,
    ) -> tuple[Notification, ...]:
        found = [
            kept
            for kept in self._first_pending()
            if kept.due_ns is not None
            and not now_ns < kept.due_ns <= now_ns + FAR_NS
            and kept.letter.id not in but
            and kept.letter.registration.host not in hosts_but
            and kept.letter.owner not in owners_but
        ]
        found.sort(key=lambda kept: (kept.due_ns, kept.letter.id))
        # The current registration is used, because its URL may have been replaced since.
        return tuple(
            replace(kept.letter, registration=self._registered[kept.n][kept.letter.registration.id])
            for kept in found[:most]
        )

    async def next_due_ns(self, *, but: Collection[int]) -> int | None:
        return min(
            (kept.due_ns for kept in self._first_pending() if kept.due_ns is not None and kept.letter.id not in but),
            default=None,
        )

    def _first_pending(self) -> Collection[_Kept]:
        """Return the oldest pending notification of each registration. It must be delivered before the later ones."""
        first: dict[tuple[int, str], _Kept] = {}
        for kept in self._letters.values():
            if kept.due_ns is not None:
                first.setdefault((kept.n, kept.letter.registration.id), kept)
        return first.values()

    async def pending(self) -> int:
        return sum(kept.due_ns is not None for kept in self._letters.values())

    async def delivered(self, letter: int) -> None:
        self._letters.pop(letter, None)

    async def put_off(self, letter: int, *, until_ns: int) -> None:
        if kept := self._letters.get(letter):
            kept.letter, kept.due_ns = replace(kept.letter, attempts=kept.letter.attempts + 1), until_ns

    async def give_up(self, letter: int, *, reason: str, at_ns: int) -> None:
        if kept := self._letters.get(letter):
            kept.due_ns = None
            kept.dead = UndeliveredNotification(kept.letter.task.id, kept.letter.registration.host, reason, at_ns)

    async def dead(self, *, most: int) -> tuple[int, tuple[UndeliveredNotification, ...]]:
        dead = sorted((kept.dead for kept in self._letters.values() if kept.dead), key=lambda each: -each.at_ns)
        return len(dead), tuple(dead[:most])


def _is_of(kept: _Kept, n: int, registration_id: str) -> bool:
    return kept.n == n and kept.letter.registration.id == registration_id
