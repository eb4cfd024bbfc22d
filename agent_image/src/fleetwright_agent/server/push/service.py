"""The interface of push notifications for the rest of the server: it registers receivers and observes task changes.

If a task ends or waits for its caller, the notification and the new status are committed together. The notification
is then sent at once. Progress before that is debounced: a receiver gets the current task at most every 1.5 seconds.
This module does not deliver notifications.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.errors import LimitReached, ServiceUnavailable
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.server import Push
from fleetwright_agent.server.push.delivery_worker import PAUSES, DeliveryWorker, place
from fleetwright_agent.server.push.encryption import CredentialCipher, DecryptionFailed, PushCredentials, parse_keys
from fleetwright_agent.server.push.name_lookups import TooManyLookups
from fleetwright_agent.server.push.receivers import ATTEMPT_SECONDS, ForbiddenReceiver, Receivers
from fleetwright_agent.server.push.registration import MOST_OF_TASK, credentials_of, shown
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.tasks.push_store import PushStore, Registration, UnknownTask
from fleetwright_agent.telemetry.metrics import Metrics

_FLUSH_SECONDS: Final = 3.0
_RESEALED_AT_ONCE: Final = 100
_FULL: Final = f"The task has {MOST_OF_TASK} push notification configurations already; delete one first"


@dataclass(frozen=True, slots=True)
class DeliveryTimes:
    """The time parameters of deliveries, in seconds."""

    debounce: float = 1.5
    attempt: float = ATTEMPT_SECONDS
    pauses: Sequence[float] = PAUSES


@dataclass(frozen=True, slots=True)
class RegistrationDraft:
    """A checked push configuration that may be registered."""

    id: str
    url: str
    host: str
    dialect: str
    credentials: PushCredentials


class PushService:
    def __init__(
        self,
        store: PushStore,
        courier: DeliveryWorker,
        *,
        receivers: Receivers,
        seals: CredentialCipher,
        clock: Clock,
        debounce: float,
    ) -> None:
        self._store = store
        self._courier = courier
        self._receivers = receivers
        self._seals = seals
        self._clock = clock
        self._debounce = debounce
        self._listened: set[int] = set()
        self._added = 0
        self._timers: dict[int, asyncio.TimerHandle] = {}
        self._updates: dict[int, asyncio.Task[None]] = {}

    async def run(self) -> None:
        """Deliver notifications until the task is cancelled."""
        await self._courier.run()

    async def refresh(self) -> None:
        """Reload the set of tasks that have registrations, and encrypt old credentials with the newest key.

        If a registration is added during the read, the current set is kept, because the result may lack that
        registration.
        """
        added = self._added
        listened = await self._store.listened_to()
        if added == self._added:
            self._listened = set(listened)
        await self._reseal()

    async def _reseal(self) -> None:
        """Encrypt stored credentials with the newest key, so that older keys can be removed.

        Credentials that no mounted key can decrypt are left unchanged.
        """
        after, mark = (0, ""), self._seals.mark
        while mark and (held := await self._store.sealed_otherwise(mark, after=after, most=_RESEALED_AT_ONCE)):
            for each in held:
                registration = each.registration
                bound = place(each.owner, each.task_id, registration.id, registration.url)
                with suppress(DecryptionFailed):
                    credentials = self._seals.open(registration.sealed, place=bound)
                    await self._store.reseal(each, self._seals.seal(credentials, place=bound))
                after = (each.n, registration.id)

    def on_event(self, live: ActiveTask) -> None:
        """Handle an event of a task: notify at once when the task ends or waits, and debounced while it runs."""
        if live.n not in self._listened:
            return
        if live.resting:
            self._hush(live.n)
            self._courier.wake()
        elif live.n not in self._timers:
            later = asyncio.get_running_loop().call_later
            self._timers[live.n] = later(self._debounce, self._begin_update, live)

    async def draft(self, owner: str, config: TaskPushNotificationConfig, *, dialect: str) -> RegistrationDraft:
        """Check a push configuration before it is registered.

        Raises:
            InvalidParamsError: The configuration is invalid, or its URL is not allowed.
            LimitReached: The limit of concurrent DNS lookups was reached for too long.
            ServiceUnavailable: There is no key to encrypt the credentials.
        """
        credentials = credentials_of(config)
        if credentials != PushCredentials() and not self._seals.mark:
            raise ServiceUnavailable("The credentials of receivers cannot be stored right now; send the request again.")
        try:
            target = await self._receivers.check(owner, config.url)
        except ForbiddenReceiver as error:
            raise InvalidParamsError(f"pushNotificationConfig.url: {error}") from None
        except TooManyLookups:
            raise LimitReached("Earlier DNS lookups of receivers are still running; send the request again.") from None
        return RegistrationDraft(config.id, config.url, target.text, dialect, credentials)

    async def register(self, live: ActiveTask, draft: RegistrationDraft) -> TaskPushNotificationConfig:
        """Store a registration, and return it in the form that its owner may see.

        Raises:
            UnsupportedOperationError: The task has the maximum number of registrations.
            TaskNotFoundError: The task was deleted.
        """
        identifier = draft.id or live.task_id
        sealed = self._seals.seal(draft.credentials, place=place(live.owner, live.task_id, identifier, draft.url))
        registration = Registration(identifier, draft.url, draft.host, draft.dialect, sealed)
        # Mark the task before the commit, because the task may change directly after the commit. Mark it again after
        # the commit, because a concurrent `refresh` may have read the store before the registration was visible.
        self._listen(live.n)
        try:
            fits = await self._store.register(live.n, registration, at_ns=self._clock.now_ns(), most=MOST_OF_TASK)
        except UnknownTask:
            raise TaskNotFoundError from None
        if not fits:
            raise UnsupportedOperationError(_FULL)
        self._listen(live.n)
        self._courier.wake()
        return shown(live.task_id, identifier, draft.url, draft.credentials)

    async def check_room(self, live: ActiveTask, draft: RegistrationDraft) -> None:
        """Raises: UnsupportedOperationError: the task has the maximum number of registrations."""
        others = [each for each in await self._store.registrations(live.n) if each.id != (draft.id or live.task_id)]
        if len(others) >= MOST_OF_TASK:
            raise UnsupportedOperationError(_FULL)

    async def registered(self, live: ActiveTask) -> list[TaskPushNotificationConfig]:
        return [self._shown(live, each) for each in await self._store.registrations(live.n)]

    async def one(self, live: ActiveTask, identifier: str) -> TaskPushNotificationConfig:
        """Raises: TaskNotFoundError."""
        wanted = identifier or live.task_id
        found = next((each for each in await self._store.registrations(live.n) if each.id == wanted), None)
        if found is None:
            raise TaskNotFoundError("The task has no push notification configuration with this id")
        return self._shown(live, found)

    async def remove(self, live: ActiveTask, identifier: str) -> None:
        """Remove a registration and its undelivered notifications. Idempotent."""
        await self._store.remove(live.n, identifier or live.task_id)
        if self._hush(live.n):
            # The cancelled update was also meant for the other registrations of the task.
            self.on_event(live)

    async def flush(self) -> None:
        await self._courier.flush(_FLUSH_SECONDS)

    async def aclose(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        for update in self._updates.values():
            update.cancel()
        await self._courier.aclose()
        await self._receivers.aclose()

    @property
    def problem(self) -> str | None:
        """Why credentials cannot be stored, as text for people. None if they can be stored."""
        return self._seals.problem

    @property
    def undelivered(self) -> int:
        """The number of notifications that are neither delivered nor given up."""
        return self._courier.pending

    @property
    def next_due_ns(self) -> int | None:
        """The due time of the next of them."""
        return self._courier.next_due_ns

    def report(self) -> dict[str, Any]:
        return self._courier.report()

    def _listen(self, n: int) -> None:
        self._listened.add(n)
        self._added += 1

    def _shown(self, live: ActiveTask, found: Registration) -> TaskPushNotificationConfig:
        try:
            bound = place(live.owner, live.task_id, found.id, found.url)
            credentials = self._seals.open(found.sealed, place=bound)
        except DecryptionFailed:
            credentials = PushCredentials()
        return shown(live.task_id, found.id, found.url, credentials)

    def _begin_update(self, live: ActiveTask) -> None:
        del self._timers[live.n]
        if live.n in self._updates:
            # The previous update is still being sent. The debounce starts again and will send the newer state.
            self.on_event(live)
            return
        update = asyncio.create_task(self._update(live))
        self._updates[live.n] = update
        update.add_done_callback(lambda _: self._updates.pop(live.n))

    async def _update(self, live: ActiveTask) -> None:
        with suppress(TaskLogUnavailable):  # Readiness reports the error, and the final notification is sent anyway.
            registrations = await self._store.registrations(live.n)
            flights = [self._courier.update(live.owner, each, live.task) for each in registrations]
            await asyncio.gather(*(flight for flight in flights if flight is not None))

    def _hush(self, n: int) -> bool:
        """Cancel a pending or running update, because newer state replaces it. Return true if there was an update."""
        timer, update = self._timers.pop(n, None), self._updates.get(n)
        if timer:
            timer.cancel()
        if update:
            update.cancel()
        return timer is not None or update is not None


def policy_of(push: Push, denied: tuple[Network, ...] = ()) -> EgressPolicy:
    """Return the egress policy: the configured hosts and ranges. If none is configured, every public address."""
    return EgressPolicy(
        hosts=frozenset(EgressTarget(each.host, each.port) for each in push.allowed_hosts),
        ranges=push.allowed_cidrs,
        everywhere=not (push.allowed_hosts or push.allowed_cidrs),
        denied=denied,
    )


def build_pushes(
    push: Push,
    layout: Layout,
    store: PushStore,
    *,
    metrics: Metrics,
    clock: Clock,
    times: DeliveryTimes,
    denied: tuple[Network, ...] = (),
) -> PushService:
    """Build the push service, without opening a connection or a file."""
    receivers = Receivers(policy_of(push, denied), seconds=times.attempt)
    seals = CredentialCipher(FileWatcher(layout.secret(push.key_file), parse_keys))
    courier = DeliveryWorker(store, receivers=receivers, seals=seals, metrics=metrics, clock=clock, pauses=times.pauses)
    return PushService(store, courier, receivers=receivers, seals=seals, clock=clock, debounce=times.debounce)
