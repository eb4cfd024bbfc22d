"""Leader election: the Lease is acquired, renewed, respected, taken over, lost and released."""

from collections.abc import Callable

import pytest
from tests.support.sleeping_clock import SleepingClock

from fleetwright_kube.errors import api_error
from fleetwright_kube.lease import Lease, LeaseExpiredError, LeaseLostError
from fleetwright_kube.port import LEASES


@pytest.fixture
def clock() -> SleepingClock:
    return SleepingClock()


@pytest.fixture
def lease(api, clock):
    def make(identity: str, *, on_attempt: Callable[[], None] = lambda: None) -> Lease:
        return Lease(
            api,
            namespace="system",
            name="operator",
            identity=identity,
            now=lambda: f"t{clock.now}",
            clock=clock,
            sleep=clock.sleep,
            on_attempt=on_attempt,
        )

    return make


def holder(api) -> str:
    return api.find("Lease", "operator", namespace="system")["spec"]["holderIdentity"]


async def test_lease_is_acquired_by_the_second_only_after_expiry(api, clock, lease):
    await lease("a").acquire()
    assert holder(api) == "a"
    await lease("b").acquire()
    assert holder(api) == "b"
    assert 15 < clock.now < 20


async def test_lease_that_is_renewed_is_never_taken_over(api, clock, lease):
    first, second = lease("a"), lease("b")
    await first.acquire()
    for _ in range(20):
        assert not await second._try()
        assert await first._try()
        await clock.sleep(10)


async def test_lease_that_is_released_can_be_acquired_at_once(api, clock, lease):
    first = lease("a")
    await first.acquire()
    await first.release()
    await lease("b").acquire()
    assert (holder(api), clock.now) == ("b", 0.0)


async def test_lease_release_ignores_another_holder(api, lease):
    first = lease("a")
    await first.acquire()
    await lease("b").release()
    assert holder(api) == "a"


async def test_lease_hold_raises_if_another_holder_is_found(api, lease):
    first = lease("a")
    await first.acquire()
    stolen = await api.get(LEASES, "system", "operator")
    await api.replace(LEASES, {**stolen, "spec": {**stolen["spec"], "holderIdentity": "thief"}})
    with pytest.raises(LeaseLostError, match="another process"):
        await first.hold()


async def test_lease_hold_raises_before_expiry_if_renewal_fails(api, clock, lease):
    first = lease("a")
    await first.acquire()
    api.fault = lambda number, what: api_error(503, "away")
    with pytest.raises(LeaseExpiredError, match="could not be renewed"):
        await first.hold()
    assert clock.now < 15
    assert not first.in_hand


async def test_expired_lease_is_reacquired_at_once_if_still_free(api, clock, lease):
    first = lease("a")
    await first.acquire()
    api.fault = lambda number, what: api_error(503, "away")
    with pytest.raises(LeaseExpiredError):
        await first.hold()
    api.fault = lambda number, what: None
    before = clock.now
    await first.acquire()
    assert (holder(api), clock.now, first.in_hand) == ("a", before, True)


async def test_lease_in_hand_is_false_after_sleeping_past_expiry(api, clock, lease):
    first = lease("a")
    await first.acquire()
    await clock.sleep(14)
    assert first.in_hand
    await clock.sleep(2)
    assert not first.in_hand


async def test_lease_hold_survives_a_short_api_server_outage(api, clock, lease):
    first = lease("a")
    await first.acquire()
    api.fault = lambda number, what: api_error(503, "away") if 4 < clock.now < 10 else None
    clock.limit = 60
    with pytest.raises(TimeoutError):
        await first.hold()
    assert holder(api) == "a"
