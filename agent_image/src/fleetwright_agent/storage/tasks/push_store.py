"""The port to the push data in the task log: registrations, and the outbox of notifications.

Every implementation guarantees:

- The record with which a task ends or starts to wait, and the notifications about it, are written in one commit.
- The notifications of one registration are delivered in order.
- Deleting a task deletes its registrations, and deleting a registration deletes its notifications.

This module does not check addresses, does not see credentials in plain text, and reads no clock.
"""

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Final, Protocol

from a2a.types.a2a_pb2 import Task

FAR_NS: Final = 60_000_000_000
"""The longest delay of a notification. If the due time is further away, the clock was set back: send it at once."""


@dataclass(frozen=True, slots=True)
class Registration:
    """A receiver of push notifications about one task."""

    id: str
    url: str
    host: str
    """Host and port of the URL, normalised."""
    dialect: str
    """The A2A version of the registration request. Notifications use the same version."""
    sealed: bytes = field(repr=False)
    """The encrypted credentials; empty for a receiver without credentials."""


@dataclass(frozen=True, slots=True)
class StoredRegistration:
    """A stored registration with its task and owner."""

    n: int
    owner: str
    task_id: str
    registration: Registration


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification in the outbox, for one registration. `task` is the task when it ended or started to wait."""

    id: int
    owner: str
    registration: Registration
    attempts: int
    """The number of attempts so far."""
    task: Task


@dataclass(frozen=True, slots=True)
class UndeliveredNotification:
    """A notification that could not be delivered and is not retried."""

    task_id: str
    host: str
    reason: str
    at_ns: int


class UnknownTask(Exception):  # noqa: N818 - states a fact
    """The task was deleted in the meantime."""


class PushStore(Protocol):
    async def register(self, n: int, registration: Registration, *, at_ns: int, most: int) -> bool:
        """Add or replace a registration, and return true after the commit; false if the task has `most` others.

        If the task has already ended, a notification about the end is put into the outbox in the same commit.

        Raises:
            UnknownTask: There is no such task.
        """

    async def registrations(self, n: int) -> tuple[Registration, ...]:
        """Return the registrations of a task, ordered by id."""

    async def sealed_otherwise(
        self, mark: bytes, *, after: tuple[int, str], most: int
    ) -> tuple[StoredRegistration, ...]:
        """Return registrations whose credentials were not encrypted with the key that `mark` identifies.

        The registrations are ordered by task number and id, and start after the position `after`.
        """

    async def reseal(self, held: StoredRegistration, sealed: bytes) -> None:
        """Replace the encrypted credentials, unless the registration was replaced in the meantime."""

    async def remove(self, n: int, registration_id: str) -> bool:
        """Delete a registration with its notifications; return true if it existed."""

    async def listened_to(self) -> frozenset[int]:
        """Return the numbers of the tasks that have registrations."""

    async def due(
        self,
        now_ns: int,
        *,
        but: Collection[int],
        hosts_but: Collection[str],
        owners_but: Collection[str],
        most: int,
    ) -> tuple[Notification, ...]:
        """Return the oldest pending notification of each registration, if it is due.

        Args:
            but: Ids of notifications to leave out.
            hosts_but: Receiver hosts to leave out.
            owners_but: Owners to leave out.
        """

    async def next_due_ns(self, *, but: Collection[int]) -> int | None:
        """Return the earliest due time among the oldest pending notifications of each registration.

        Later notifications of a registration wait for the oldest one, so their due times do not count.

        Args:
            but: Ids of notifications to leave out. Later notifications of their registrations are left out, too.
        """

    async def pending(self) -> int:
        """Return the number of notifications that are neither delivered nor given up."""

    async def delivered(self, letter: int) -> None: ...

    async def put_off(self, letter: int, *, until_ns: int) -> None:
        """Count a failed attempt, and set the next due time."""

    async def give_up(self, letter: int, *, reason: str, at_ns: int) -> None:
        """Mark a notification as undeliverable, and delete its content."""

    async def dead(self, *, most: int) -> tuple[int, tuple[UndeliveredNotification, ...]]:
        """Return the number of undeliverable notifications and the newest `most` of them."""
