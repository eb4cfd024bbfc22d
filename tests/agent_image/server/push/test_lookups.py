"""DNS lookups of names that callers chose: a slow lookup delays only its own caller."""

import asyncio
import ipaddress
from collections.abc import AsyncIterator, Sequence

import pytest
from tests.support.waiting import within

from fleetwright_a2a.outbound.policy.addresses import Ip
from fleetwright_agent.server.push.name_lookups import LOOKUPS, NameLookups, TooManyLookups

ANSWER = [ipaddress.ip_address("192.0.2.1")]


class Names:
    """A resolver whose names that begin with "slow" hang until the test lets them fail."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[Ip]:
        self.asked.append(host)
        if host.startswith("slow"):
            await self.gate.wait()
            raise OSError("not known")
        return ANSWER


@pytest.fixture
def names() -> Names:
    return Names()


@pytest.fixture
async def lookups(names: Names) -> AsyncIterator[NameLookups]:
    made = NameLookups(names, seconds=0.2)
    yield made
    names.gate.set()
    made.close()


async def hang(lookups: NameLookups, owner: str, number: int = 2) -> None:
    for name in range(number):
        with pytest.raises(TimeoutError):
            await lookups.addresses(owner, f"slow-{name}", 80)


async def test_lookups_limit_delays_only_the_caller_with_slow_names(lookups: NameLookups, names: Names) -> None:
    await hang(lookups, "one")
    with pytest.raises(TooManyLookups):
        await lookups.addresses("one", "quick", 80, patience=0.05)
    assert names.asked == ["slow-0", "slow-1"]
    async with within("a quick lookup ends beside slow ones"):
        assert await lookups.addresses("other", "quick", 80) == ANSWER


async def test_lookups_keep_the_slot_of_an_abandoned_lookup(lookups: NameLookups, names: Names) -> None:
    await hang(lookups, "one")
    waiting = asyncio.ensure_future(lookups.addresses("one", "quick", 80))
    await asyncio.sleep(0.6)  # Longer than the lookup timeout, which does not include the time in the queue.
    assert not waiting.done()
    names.gate.set()
    async with within("the waiting lookup ends"):
        assert await waiting == ANSWER


async def test_lookups_cancelled_waiter_frees_its_place_in_the_queue(lookups: NameLookups, names: Names) -> None:
    for owner in range(LOOKUPS // 2):
        await hang(lookups, str(owner))
    for _ in range(5):
        with pytest.raises(TooManyLookups):
            await lookups.addresses("late", "quick", 80, patience=0.02)
    names.gate.set()
    async with within("a later lookup ends"):
        assert await lookups.addresses("late", "quick", 80) == ANSWER
