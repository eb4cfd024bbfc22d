"""Registrations and outbox in the SQLite file of the task log, through the log's single writer and its reader."""

import json
import sqlite3
from collections.abc import Callable, Collection
from typing import Any, Final, Protocol, TypeVar

from a2a.types.a2a_pb2 import Task
from google.protobuf.message import DecodeError

from fleetwright_agent.storage.sqlite.tasks import push_statements as sql
from fleetwright_agent.storage.tasks.push_store import (
    FAR_NS,
    Notification,
    Registration,
    StoredRegistration,
    UndeliveredNotification,
    UnknownTask,
)

T = TypeVar("T")


class Submit(Protocol):
    """A callable that runs work on the writer's or the reader's connection. Raises: TaskLogUnavailable."""

    async def __call__(self, work: Callable[[sqlite3.Connection], T]) -> T: ...


def post_rest(connection: sqlite3.Connection, n: int, *, at_ns: int, snapshot: bytes) -> None:
    """Add notifications about a task that ends or starts to wait to the outbox, in the transaction of this change."""
    for statement in sql.POST:
        connection.execute(statement, {"n": n, "at": at_ns, "task": snapshot})


class SqlitePushStore:
    def __init__(self, *, commit: Submit, read: Submit) -> None:
        self._commit = commit
        self._read = read

    async def register(self, n: int, registration: Registration, *, at_ns: int, most: int) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            others = connection.execute(sql.COUNT_OTHERS, (n, registration.id)).fetchone()[0]
            if others >= most:
                return False
            if connection.execute(sql.REGISTER, (*_columns(registration), n)).rowcount != 1:
                raise UnknownTask
            for statement in sql.POST_LATE:
                connection.execute(statement, {"n": n, "config": registration.id, "at": at_ns})
            return True

        return await self._commit(work)

    async def registrations(self, n: int) -> tuple[Registration, ...]:
        def work(connection: sqlite3.Connection) -> tuple[Registration, ...]:
            return tuple(Registration(*row) for row in connection.execute(sql.REGISTRATIONS, (n,)))

        return await self._read(work)

    async def sealed_otherwise(
        self, mark: bytes, *, after: tuple[int, str], most: int
    ) -> tuple[StoredRegistration, ...]:
        values = {"mark": mark, "n": after[0], "id": after[1], "most": most}

        def work(connection: sqlite3.Connection) -> tuple[StoredRegistration, ...]:
            rows = connection.execute(sql.SEALED_OTHERWISE, values)
            return tuple(
                StoredRegistration(n, owner, task_id, Registration(*rest)) for n, owner, task_id, *rest in rows
            )

        return await self._read(work)

    async def reseal(self, held: StoredRegistration, sealed: bytes) -> None:
        registration = held.registration
        await self._write(sql.RESEAL, (sealed, held.n, registration.id, registration.sealed))

    async def remove(self, n: int, registration_id: str) -> bool:
        def work(connection: sqlite3.Connection) -> bool:
            connection.execute(sql.REMOVE_LETTERS, (n, registration_id))
            return connection.execute(sql.REMOVE, (n, registration_id)).rowcount == 1

        return await self._commit(work)

    async def listened_to(self) -> frozenset[int]:
        def work(connection: sqlite3.Connection) -> frozenset[int]:
            return frozenset(n for (n,) in connection.execute(sql.LISTENED_TO))

        return await self._read(work)

    async def due(
        self,
        now_ns: int,
        *,
        but: Collection[int],
        hosts_but: Collection[str],
        owners_but: Collection[str],
        most: int,
    ) -> tuple[Notification, ...]:
        values = {
            "now": now_ns,
            "far": now_ns + FAR_NS,
            "but": json.dumps(list(but)),
            "hosts": json.dumps(list(hosts_but)),
            "owners": json.dumps(list(owners_but)),
            "most": most,
        }

        rows = await self._read(lambda connection: connection.execute(sql.DUE, values).fetchall())
        letters = [(row[0], _letter(row)) for row in rows]
        for number, letter in letters:
            if letter is None:
                await self.give_up(number, reason="the task in it cannot be read", at_ns=now_ns)
        return tuple(letter for _, letter in letters if letter is not None)

    async def next_due_ns(self, *, but: Collection[int]) -> int | None:
        def work(connection: sqlite3.Connection) -> int | None:
            due: int | None = connection.execute(sql.NEXT_DUE, (json.dumps(list(but)),)).fetchone()[0]
            return due

        return await self._read(work)

    async def pending(self) -> int:
        def work(connection: sqlite3.Connection) -> int:
            number: int = connection.execute(sql.COUNT_PENDING).fetchone()[0]
            return number

        return await self._read(work)

    async def delivered(self, letter: int) -> None:
        await self._write(sql.DELIVERED, (letter,))

    async def put_off(self, letter: int, *, until_ns: int) -> None:
        await self._write(sql.PUT_OFF, (until_ns, letter))

    async def give_up(self, letter: int, *, reason: str, at_ns: int) -> None:
        await self._write(sql.GIVE_UP, (reason, at_ns, letter))

    async def dead(self, *, most: int) -> tuple[int, tuple[UndeliveredNotification, ...]]:
        def work(connection: sqlite3.Connection) -> tuple[int, tuple[UndeliveredNotification, ...]]:
            total = connection.execute(sql.COUNT_DEAD).fetchone()[0]
            return total, tuple(UndeliveredNotification(*row) for row in connection.execute(sql.DEAD, (most,)))

        return await self._read(work)

    async def _write(self, statement: str, values: tuple[Any, ...]) -> None:
        def work(connection: sqlite3.Connection) -> None:
            connection.execute(statement, values)

        await self._commit(work)


def _columns(registration: Registration) -> tuple[str, str, str, str, bytes]:
    return registration.id, registration.url, registration.host, registration.dialect, registration.sealed


_OF_LETTER: Final = 4


def _letter(row: tuple[Any, ...]) -> Notification | None:
    letter, owner, attempts, snapshot = row[:_OF_LETTER]
    try:
        task = Task.FromString(snapshot)
    except DecodeError:
        return None
    return Notification(letter, owner, Registration(*row[_OF_LETTER:]), attempts, task)
