"""Failures of the delivery worker: a task log that rejects writes, and notifications that it cannot send."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Task
from prometheus_client import CollectorRegistry
from tests.support.virtual_time import run
from tests.support.waiting import await_until, within

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy, EgressTarget
from fleetwright_agent.server.push.delivery_worker import DeliveryWorker
from fleetwright_agent.server.push.receivers import DeliveryResult, Receivers, judged
from fleetwright_agent.server.push.service import DeliveryTimes
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.memory.push_store import MemoryPushStore, TaskOfRegistrations
from fleetwright_agent.storage.tasks.push_store import Registration
from fleetwright_agent.telemetry.metrics import Metrics


def test_delivery_times_have_documented_defaults() -> None:
    times = DeliveryTimes()
    assert (times.debounce, times.attempt, tuple(times.pauses)) == (1.5, 10, (1, 3))


def running_task(_: int) -> TaskOfRegistrations:
    return TaskOfRegistrations("me", "t")


class Unsealed:
    """A decryptor that returns no credentials, because these registrations have none."""

    def open(self, sealed: bytes, *, place: str) -> Any:
        from fleetwright_agent.server.push.encryption import PushCredentials

        return PushCredentials()


class ReadOnly(MemoryPushStore):
    async def delivered(self, letter: int) -> None:
        raise TaskLogUnavailable("the disk is full")


class Unreadable(MemoryPushStore):
    asked = 0

    async def dead(self, *, most: int) -> Any:
        self.asked += 1
        raise TaskLogUnavailable("the disk is gone")


Deliver = Callable[..., Any]


@pytest.fixture
def metrics() -> Metrics:
    return Metrics(CollectorRegistry())


@pytest.fixture
def delivering(metrics: Metrics) -> Deliver:
    @asynccontextmanager
    async def of(store: MemoryPushStore, *hooks: Any, dialect: str = "1.0") -> AsyncIterator[None]:
        for number, hook in enumerate(hooks):
            host = f"{hook.host}:{hook.port}"
            await store.register(1, Registration(str(number), hook.url, host, dialect, b""), at_ns=0, most=10)
        store.post_rest(1, owner="me", at_ns=0, task=Task(id="t"))
        policy = EgressPolicy(hosts=frozenset(EgressTarget(hook.host, hook.port) for hook in hooks))
        receivers = Receivers(policy, seconds=60)
        courier = DeliveryWorker(store, receivers=receivers, seals=Unsealed(), metrics=metrics, clock=Clock())  # type: ignore[arg-type] - opens what nobody sealed
        running = asyncio.create_task(courier.run())
        yield
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await courier.aclose()
        await receivers.aclose()

    return of


def count(metrics: Metrics, outcome: str) -> float:
    found = metrics.registry.get_sample_value("fleetwright_push_deliveries_total", {"outcome": outcome})
    return found or 0.0


async def test_delivery_worker_isolates_callers_from_hanging_lookups(metrics: Metrics, receive: Any) -> None:
    """Hanging lookups of one caller delay no other caller, and do not count as delivery attempts."""
    hook, asked = await receive(), []

    async def hangs(host: str, port: int) -> Any:
        asked.append(host)
        await asyncio.sleep(3600)

    store = MemoryPushStore(running_task)
    for n in range(4):
        for number in range(10):
            slow = Registration(str(number), f"http://slow-{n}-{number}.example/", f"slow-{n}-{number}", "1.0", b"")
            await store.register(n, slow, at_ns=0, most=10)
        store.post_rest(n, owner="one", at_ns=0, task=Task(id="slow"))
    await store.register(9, Registration("a", hook.url, f"{hook.host}:{hook.port}", "1.0", b""), at_ns=0, most=10)
    store.post_rest(9, owner="other", at_ns=1, task=Task(id="quick"))
    policy = EgressPolicy(hosts=frozenset({EgressTarget(hook.host, hook.port)}), everywhere=True)
    receivers = Receivers(policy, seconds=1.0, resolving=hangs)
    courier = DeliveryWorker(store, receivers=receivers, seals=Unsealed(), metrics=metrics, clock=Clock())  # type: ignore[arg-type] - opens what nobody sealed
    running = asyncio.create_task(courier.run())
    async with within("the receiver gets the notification"):
        await hook.until(1)
    await asyncio.sleep(2)  # Longer than the time limit of an attempt.
    assert len(asked) == 2
    assert (count(metrics, "retried"), count(metrics, "dead")) == (0, 0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await courier.aclose()
    await receivers.aclose()


async def test_delivery_worker_sends_once_if_delivery_cannot_be_stored(delivering: Deliver, receive: Any) -> None:
    hook = await receive()
    async with delivering(ReadOnly(running_task), hook):
        await hook.until(1)
        await asyncio.sleep(0.5)
        assert len(hook.heard) == 1


async def test_delivery_worker_backs_off_if_the_outbox_is_unreadable(delivering: Deliver) -> None:
    store = Unreadable(running_task)
    async with delivering(store):
        await asyncio.sleep(0.5)
    assert store.asked == 1


async def test_delivery_worker_gives_up_unserialisable_notifications(
    delivering: Deliver, metrics: Metrics, receive: Any
) -> None:
    hook = await receive()
    store = MemoryPushStore(running_task)
    async with delivering(store, hook, dialect="9.9"):
        await await_until(lambda: count(metrics, "dead"), "the courier gives up")
    assert hook.heard == []
    _, (dead,) = await store.dead(most=5)
    assert dead.reason == "the agent could not send it because of an internal error"


class ScriptedReceivers:
    """Receivers that answer with the given statuses and record the time of each request."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.at: list[float] = []

    async def post(self, *_: Any) -> DeliveryResult:
        self.at.append(round(asyncio.get_running_loop().time(), 1))
        return judged(self._statuses.pop(0))


def loop_ns() -> int:
    return round(asyncio.get_running_loop().time() * 1e9)


Scenario = Callable[[DeliveryWorker], Awaitable[None]]


def times_of_requests(metrics: Metrics, statuses: tuple[int, ...], scenario: Scenario) -> list[float]:
    """Run a worker in virtual time with two notifications of one registration. Return the times of its requests."""
    receivers = ScriptedReceivers(*statuses)

    async def main() -> None:
        store = MemoryPushStore(running_task)
        await store.register(1, Registration("a", "http://hook.example/", "hook", "1.0", b""), at_ns=0, most=10)
        for _ in range(2):
            store.post_rest(1, owner="me", at_ns=0, task=Task(id="t"))
        worker = DeliveryWorker(
            store,
            receivers=receivers,  # type: ignore[arg-type] - the script takes its place
            seals=Unsealed(),  # type: ignore[arg-type] - opens what nobody sealed
            metrics=metrics,
            clock=Clock(now_ns=loop_ns),
        )
        running = asyncio.create_task(worker.run())
        await scenario(worker)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await worker.aclose()

    run(main())
    return receivers.at


def test_retry_is_not_delayed_by_a_later_notification(metrics: Metrics) -> None:
    async def a_minute(_: DeliveryWorker) -> None:
        await asyncio.sleep(60)

    assert times_of_requests(metrics, (503, 200, 200), a_minute) == [0, 1, 1]


def test_flush_ends_when_no_notification_may_be_sent(metrics: Metrics) -> None:
    ended: list[float] = []

    async def flushed(worker: DeliveryWorker) -> None:
        await asyncio.sleep(0.5)
        await worker.flush(5)
        ended.append(asyncio.get_running_loop().time())

    assert times_of_requests(metrics, (503,), flushed) == [0]
    assert ended == [pytest.approx(0.5, abs=0.1)]
