"""Push as the rest of the server sees it: registering, and being told that a task has moved.

What ends or pauses a task is in the outbox with it, and goes out at once; what happens in between is told every one
and a half seconds at most, as the task is then. Refuses: delivering, which the courier does.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from a2a.types.a2a_pb2 import TaskPushNotificationConfig
from a2a.utils.errors import InvalidParamsError, TaskNotFoundError, UnsupportedOperationError

from fleetwright_agent.clock import Clock
from fleetwright_agent.config.file_watcher import Watched
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.server import Push
from fleetwright_agent.security.addresses import Network
from fleetwright_agent.security.egress import EgressPolicy, Target
from fleetwright_agent.server.errors import LimitReached, Unavailable
from fleetwright_agent.server.push.delivery_worker import PAUSES, Courier, place
from fleetwright_agent.server.push.encryption import Credentials, Seals, Unopenable, parse_keys
from fleetwright_agent.server.push.name_lookups import Crowded
from fleetwright_agent.server.push.receivers import ATTEMPT_SECONDS, Receivers, Unwelcome
from fleetwright_agent.server.push.registration import MOST_OF_TASK, credentials_of, shown
from fleetwright_agent.server.tasks.active_tasks import Live
from fleetwright_agent.storage.push_store import NoTask, PushStore, Registration
from fleetwright_agent.storage.task_log import LogUnusable
from fleetwright_agent.telemetry.metrics import Metrics

_FLUSH_SECONDS: Final = 3.0
_RESEALED_AT_ONCE: Final = 100
_FULL: Final = f"The task has {MOST_OF_TASK} push notification configurations already; delete one first"


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds."""

    debounce: float = 1.5
    attempt: float = ATTEMPT_SECONDS
    pauses: Sequence[float] = PAUSES


@dataclass(frozen=True, slots=True)
class Draft:
    """A configuration that may be registered."""

    id: str
    url: str
    host: str
    dialect: str
    credentials: Credentials


class Pushes:
    def __init__(
        self, store: PushStore, courier: Courier, *, receivers: Receivers, seals: Seals, clock: Clock, debounce: float
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
        """Delivers; ends when cancelled."""
        await self._courier.run()

    async def refresh(self) -> None:
        """Learns at the start of the tasks that somebody listens to, and later forgets those that are gone."""
        added = self._added
        listened = await self._store.listened_to()
        if added == self._added:
            self._listened = set(listened)
        await self._reseal()

    async def _reseal(self) -> None:
        """Under the newest key, so that a former one is needed no longer; what none opens stays as it is."""
        after, mark = (0, ""), self._seals.mark
        while mark and (held := await self._store.sealed_otherwise(mark, after=after, most=_RESEALED_AT_ONCE)):
            for each in held:
                registration = each.registration
                bound = place(each.owner, each.task_id, registration.id, registration.url)
                with suppress(Unopenable):
                    credentials = self._seals.open(registration.sealed, place=bound)
                    await self._store.reseal(each, self._seals.seal(credentials, place=bound))
                after = (each.n, registration.id)

    def told(self, live: Live) -> None:
        """The task has moved."""
        if live.n not in self._listened:
            return
        if live.resting:
            self._hush(live.n)
            self._courier.wake()
        elif live.n not in self._timers:
            later = asyncio.get_running_loop().call_later
            self._timers[live.n] = later(self._debounce, self._begin_update, live)

    async def draft(self, owner: str, config: TaskPushNotificationConfig, *, dialect: str) -> Draft:
        """Raises: InvalidParamsError, LimitReached, Unavailable: credentials could not be kept."""
        credentials = credentials_of(config)
        if credentials != Credentials() and not self._seals.mark:
            raise Unavailable("Credentials of receivers cannot be kept right now; send it again.")
        try:
            target = await self._receivers.check(owner, config.url)
        except Unwelcome as error:
            raise InvalidParamsError(f"pushNotificationConfig.url: {error}") from None
        except Crowded:
            raise LimitReached("Names of receivers are still being looked up; send it again.") from None
        return Draft(config.id, config.url, target.text, dialect, credentials)

    async def register(self, live: Live, draft: Draft) -> TaskPushNotificationConfig:
        """Raises: UnsupportedOperationError, TaskNotFoundError."""
        identifier = draft.id or live.task_id
        sealed = self._seals.seal(draft.credentials, place=place(live.owner, live.task_id, identifier, draft.url))
        registration = Registration(identifier, draft.url, draft.host, draft.dialect, sealed)
        # From before the commit on, for the task may move as soon as it is there; and again after it, for meanwhile
        # somebody may have looked who did not see it yet.
        self._listen(live.n)
        try:
            fits = await self._store.register(live.n, registration, at_ns=self._clock.now_ns(), most=MOST_OF_TASK)
        except NoTask:
            raise TaskNotFoundError from None
        if not fits:
            raise UnsupportedOperationError(_FULL)
        self._listen(live.n)
        self._courier.wake()
        return shown(live.task_id, identifier, draft.url, draft.credentials)

    async def check_room(self, live: Live, draft: Draft) -> None:
        """Raises: UnsupportedOperationError."""
        others = [each for each in await self._store.registrations(live.n) if each.id != (draft.id or live.task_id)]
        if len(others) >= MOST_OF_TASK:
            raise UnsupportedOperationError(_FULL)

    async def registered(self, live: Live) -> list[TaskPushNotificationConfig]:
        return [self._shown(live, each) for each in await self._store.registrations(live.n)]

    async def one(self, live: Live, identifier: str) -> TaskPushNotificationConfig:
        """Raises: TaskNotFoundError."""
        wanted = identifier or live.task_id
        found = next((each for each in await self._store.registrations(live.n) if each.id == wanted), None)
        if found is None:
            raise TaskNotFoundError("The task has no push notification configuration of that id")
        return self._shown(live, found)

    async def remove(self, live: Live, identifier: str) -> None:
        """Nothing more is sent; asking twice is fine."""
        await self._store.remove(live.n, identifier or live.task_id)
        if self._hush(live.n):
            # What was about to be said was also meant for others.
            self.told(live)

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
        """Why nobody could register credentials, for people."""
        return self._seals.problem

    def report(self) -> dict[str, Any]:
        return self._courier.report()

    def _listen(self, n: int) -> None:
        self._listened.add(n)
        self._added += 1

    def _shown(self, live: Live, found: Registration) -> TaskPushNotificationConfig:
        try:
            bound = place(live.owner, live.task_id, found.id, found.url)
            credentials = self._seals.open(found.sealed, place=bound)
        except Unopenable:
            credentials = Credentials()
        return shown(live.task_id, found.id, found.url, credentials)

    def _begin_update(self, live: Live) -> None:
        del self._timers[live.n]
        if live.n in self._updates:
            # The last one is still on its way: the state of then is told when it has arrived.
            self.told(live)
            return
        update = asyncio.create_task(self._update(live))
        self._updates[live.n] = update
        update.add_done_callback(lambda _: self._updates.pop(live.n))

    async def _update(self, live: Live) -> None:
        with suppress(LogUnusable):  # Readiness tells it, and the end of the task is told anyway.
            registrations = await self._store.registrations(live.n)
            flights = [self._courier.update(live.owner, each, live.task) for each in registrations]
            await asyncio.gather(*(flight for flight in flights if flight is not None))

    def _hush(self, n: int) -> bool:
        """What comes now says more than what was about to be said; whether there was anything."""
        timer, update = self._timers.pop(n, None), self._updates.get(n)
        if timer:
            timer.cancel()
        if update:
            update.cancel()
        return timer is not None or update is not None


def policy_of(push: Push, denied: tuple[Network, ...] = ()) -> EgressPolicy:
    """What is named is all that is allowed; where nothing is named, everything public."""
    return EgressPolicy(
        hosts=frozenset(Target(each.host, each.port) for each in push.allowed_hosts),
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
    times: Times,
    denied: tuple[Network, ...] = (),
) -> Pushes:
    """Nothing is opened yet."""
    receivers = Receivers(policy_of(push, denied), seconds=times.attempt)
    seals = Seals(Watched(layout.secret(push.key_file), parse_keys))
    courier = Courier(store, receivers=receivers, seals=seals, metrics=metrics, clock=clock, pauses=times.pauses)
    return Pushes(store, courier, receivers=receivers, seals=seals, clock=clock, debounce=times.debounce)
