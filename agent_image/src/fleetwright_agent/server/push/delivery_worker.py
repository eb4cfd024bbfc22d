"""The delivery worker of the outbox: sends due push notifications, retries them, and gives up after the last attempt.

Delivery is at least once: a notification leaves the outbox only after its receiver has accepted it. Concurrent
deliveries are limited for each receiver host and each caller, so that a slow receiver does not delay other receivers.
This module does not know why a notification was created.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from a2a.types.a2a_pb2 import Task

from fleetwright_a2a.clock import Clock
from fleetwright_agent.server.push.encryption import CredentialCipher, DecryptionFailed
from fleetwright_agent.server.push.payload import load, payload
from fleetwright_agent.server.push.receivers import DeliveryResult, DeliveryVerdict, Receivers
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.tasks.push_store import Notification, PushStore, Registration, UndeliveredNotification
from fleetwright_agent.telemetry.metrics import Metrics

_logger = logging.getLogger(__name__)
PAUSES: Final = (1.0, 3.0)
"""Seconds to wait before the second and the third attempt."""
_MOST: Final = 32
_MOST_OF_HOST: Final = 4
_MOST_OF_OWNER: Final = 16
_LOOK_SECONDS: Final = 30.0
_UNUSABLE_SECONDS: Final = 5.0
_FLUSH_LOOK_SECONDS: Final = 0.05
_SHOWN: Final = 5
_NAME: Final = "fleetwright-agent"


def place(owner: str, task_id: str, registration_id: str, url: str) -> str:
    """Return the associated data (AEAD) that binds encrypted credentials to one registration."""
    return f"{owner}\n{task_id}\n{registration_id}\n{url}"


@dataclass(frozen=True, slots=True)
class _Flight:
    """A running delivery: its owner, the receiver's host, and the id of its outbox row if it has one."""

    owner: str
    host: str
    letter: int | None = None


class DeliveryWorker:
    def __init__(
        self,
        store: PushStore,
        *,
        receivers: Receivers,
        seals: CredentialCipher,
        metrics: Metrics,
        clock: Clock,
        pauses: Sequence[float] = PAUSES,
    ) -> None:
        self._store = store
        self._receivers = receivers
        self._seals = seals
        self._metrics = metrics
        self._clock = clock
        self._pauses = tuple(pauses)
        self._woken = asyncio.Event()
        self._flights: dict[asyncio.Task[None], _Flight] = {}
        self._dead: tuple[int, tuple[UndeliveredNotification, ...]] = (0, ())
        self.pending = 0
        """The number of notifications that are neither delivered nor given up."""
        self.next_due_ns: int | None = None
        """The due time of the next of them that need not wait for an earlier one."""

    def wake(self) -> None:
        """Make the worker check the outbox again, because a notification may be due."""
        self._woken.set()

    async def run(self) -> None:
        """Deliver due notifications until the task is cancelled."""
        while True:
            try:
                self._dead = await self._store.dead(most=_SHOWN)
                while await self._depart():
                    pass
                await self._count()
                pause = await self._pause()
            except TaskLogUnavailable:
                pause = _UNUSABLE_SECONDS
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._woken.wait()
            self._woken.clear()

    def update(self, owner: str, registration: Registration, task: Task) -> asyncio.Task[None] | None:
        """Send the state of a running task, without retries.

        If a limit of parallel deliveries is reached, the update is dropped. A dropped update is harmless, because the
        next update or the final notification contains newer state.
        """
        if not self._has_room(owner, registration.host):
            self._metrics.push_deliveries.labels("dropped").inc()
            return None
        return self._fly(self._deliver_update(owner, registration, task), _Flight(owner, registration.host))

    async def flush(self, seconds: float) -> None:
        """Wait up to `seconds` until due notifications are delivered. The rest are delivered after a restart.

        A notification that must wait for the retry of an earlier one does not count as due.
        """
        self.wake()
        with suppress(TimeoutError, TaskLogUnavailable):
            async with asyncio.timeout(seconds):
                while self._flights or await self._is_due():  # noqa: ASYNC110 - the outbox has no event for "empty"
                    await asyncio.sleep(_FLUSH_LOOK_SECONDS)

    async def aclose(self) -> None:
        flights = list(self._flights)
        for flight in flights:
            flight.cancel()
        await asyncio.gather(*flights, return_exceptions=True)

    def report(self) -> dict[str, Any]:
        """Return the number of undeliverable notifications, and the newest of them, for the status page."""
        total, newest = self._dead
        return {
            "dead": total,
            "newest": [
                {
                    "task": each.task_id,
                    "host": each.host,
                    "reason": each.reason,
                    "at": datetime.fromtimestamp(each.at_ns / 1e9, UTC).isoformat(timespec="seconds"),
                }
                for each in newest
            ],
        }

    async def _count(self) -> None:
        self.pending, self.next_due_ns = await self._store.pending(), await self._store.next_due_ns(but=())

    async def _depart(self) -> bool:
        letters = await self._store.due(
            self._clock.now_ns(),
            but=self._flying(),
            hosts_but=self._full_hosts(),
            owners_but=self._full_owners(),
            most=_MOST - len(self._flights),
        )
        departed = False
        for letter in letters:
            if self._has_room(letter.owner, letter.registration.host):
                self._fly(self._deliver(letter), _Flight(letter.owner, letter.registration.host, letter.id))
                departed = True
        return departed

    def _fly(self, delivery: Any, about: "_Flight") -> asyncio.Task[None]:
        flight: asyncio.Task[None] = asyncio.create_task(delivery)
        self._flights[flight] = about
        flight.add_done_callback(self._landed)
        return flight

    def _landed(self, flight: asyncio.Task[None]) -> None:
        del self._flights[flight]
        self.wake()

    async def _deliver(self, letter: Notification) -> None:
        answer = await self._attempt(letter.owner, letter.registration, letter.task)
        try:
            await self._record(letter, answer)
        except TaskLogUnavailable:
            # The notification is still due. Without a pause the worker would send it in a tight loop.
            await asyncio.sleep(_UNUSABLE_SECONDS)

    async def _deliver_update(self, owner: str, registration: Registration, task: Task) -> None:
        answer = await self._attempt(owner, registration, task)
        arrived = answer.verdict is DeliveryVerdict.DELIVERED
        self._metrics.push_deliveries.labels("delivered" if arrived else "dropped").inc()

    async def _attempt(self, owner: str, registration: Registration, task: Task) -> DeliveryResult:
        try:
            return await self._send(owner, registration, task)
        except DecryptionFailed:
            return DeliveryResult(
                DeliveryVerdict.NEVER, "no mounted key decrypts its credentials; register the receiver again"
            )
        except Exception:
            # A notification that cannot be built or sent must not be retried without end.
            _logger.exception("a push notification could not be sent", extra={"task": task.id})
            return DeliveryResult(DeliveryVerdict.NEVER, "the agent could not send it because of an internal error")

    async def _send(self, owner: str, registration: Registration, task: Task) -> DeliveryResult:
        """Raises: DecryptionFailed."""
        bound = place(owner, task.id, registration.id, registration.url)
        credentials = self._seals.open(registration.sealed, place=bound)
        headers = {"Content-Type": "application/json", "User-Agent": _NAME, **credentials.headers()}
        await load(registration.dialect)
        body = json.dumps(payload(registration.dialect, task), ensure_ascii=False, separators=(",", ":"))
        return await self._receivers.post(owner, registration.url, headers, body.encode())

    async def _record(self, letter: Notification, answer: DeliveryResult) -> None:
        """Write and count the result of an attempt. If the log is unusable, the notification will be sent again.

        Raises:
            TaskLogUnavailable: The result was not written.
        """
        now = self._clock.now_ns()
        if answer.verdict is DeliveryVerdict.DELIVERED:
            await self._store.delivered(letter.id)
            outcome = "delivered"
        elif answer.verdict is DeliveryVerdict.AGAIN and letter.attempts < len(self._pauses):
            await self._store.put_off(letter.id, until_ns=now + round(self._pauses[letter.attempts] * 1e9))
            outcome = "retried"
        else:
            await self._store.give_up(letter.id, reason=answer.reason, at_ns=now)
            told = {"task": letter.task.id, "host": letter.registration.host, "reason": answer.reason}
            _logger.error("a push notification was given up", extra=told)
            outcome = "dead"
        self._metrics.push_deliveries.labels(outcome).inc()

    async def _is_due(self) -> bool:
        due = await self._store.next_due_ns(but=())
        return due is not None and due <= self._clock.now_ns()

    async def _pause(self) -> float:
        if len(self._flights) >= _MOST:
            return _LOOK_SECONDS  # a finished delivery wakes the worker earlier
        due = await self._store.next_due_ns(but=self._flying())
        # A due notification that was not sent waits for other deliveries, and each finished delivery wakes the worker.
        ahead = (due - self._clock.now_ns()) / 1e9 if due is not None else _LOOK_SECONDS
        return min(ahead, _LOOK_SECONDS) if ahead > 0 else _LOOK_SECONDS

    def _flying(self) -> list[int]:
        return [flight.letter for flight in self._flights.values() if flight.letter is not None]

    def _full_hosts(self) -> list[str]:
        taken = Counter(flight.host for flight in self._flights.values())
        return [host for host, number in taken.items() if number >= _MOST_OF_HOST]

    def _full_owners(self) -> list[str]:
        taken = Counter(flight.owner for flight in self._flights.values())
        return [owner for owner, number in taken.items() if number >= _MOST_OF_OWNER]

    def _has_room(self, owner: str, host: str) -> bool:
        room = len(self._flights) < _MOST
        return room and host not in self._full_hosts() and owner not in self._full_owners()
