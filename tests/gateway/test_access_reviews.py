"""Access reviews of lists: several namespaces at a time, and each of them once."""

import asyncio
from dataclasses import dataclass, field

import pytest
from tests.support.gateway.fleet_api import FleetApi

from fleetwright_a2a.clock import Clock
from fleetwright_gateway.access.access_reviewer import ACCESS_REVIEWS, AccessReviewer
from fleetwright_gateway.access.visibility import Visibility
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_gateway.identity.errors import ReviewUnavailable
from fleetwright_gateway.identity.principals import PersonPrincipal, User

ADA = PersonPrincipal(user=User(username="ada", uid="", groups=(), extra={}))


@dataclass
class Lists:
    """The lists of a person. Each access review waits until the test lets it continue."""

    api: FleetApi
    seconds: float = 0.0
    running: int = 0
    most: int = 0
    """The most reviews that ran at the same time."""
    released: asyncio.Event = field(default_factory=asyncio.Event)

    async def create(self, resource, body):
        self.running += resource is ACCESS_REVIEWS
        self.most = max(self.most, self.running)
        await self.released.wait()
        self.running -= resource is ACCESS_REVIEWS
        return await self.api.create(resource, body)

    async def opened(self) -> "Lists":
        fleet = Fleet()
        assert await Synchroniser(self.api, fleet, namespaces=(), resync_seconds=60).fill()
        self.visibility = Visibility(fleet, AccessReviewer(self, clock=Clock(monotonic=lambda: self.seconds)))
        return self

    async def namespaces(self) -> list[str]:
        return [agent.namespace for agent in await self.visibility.list(ADA)]


@pytest.fixture
async def lists(api) -> Lists:
    """Ada may call the agents of every other of 20 namespaces."""
    for number in range(20):
        api.add_agent("callee", namespace=f"team-{number:02}")
        if number % 2:
            api.grants.add(("ada", f"team-{number:02}", ""))
    return await Lists(api).opened()


ALLOWED = [f"team-{number:02}" for number in range(1, 20, 2)]


async def test_list_reviews_eight_namespaces_at_a_time(api, lists):
    """Two lists of one person share their reviews."""
    listings = [asyncio.create_task(lists.namespaces()) for _ in range(2)]
    for _ in range(10):
        await asyncio.sleep(0)
    assert lists.running == 8
    lists.released.set()
    assert await asyncio.gather(*listings) == [ALLOWED, ALLOWED]
    assert (lists.most, len(api.access_reviews)) == (8, 20)


async def test_list_asks_only_about_unknown_namespaces(api, lists):
    lists.released.set()
    for lists.seconds, reviews in ((0, 20), (29, 20), (31, 40)):
        assert await lists.namespaces() == ALLOWED
        assert len(api.access_reviews) == reviews
    api.add_agent("callee", namespace="new")
    await lists.opened()
    assert len(await lists.visibility.list(ADA, "team-01")) == 1
    assert len(api.access_reviews) == 41


@pytest.mark.parametrize("ending", ["failed", "cancelled"])
async def test_list_that_ends_early_asks_about_no_more(api, lists, ending):
    api.failing = True
    listing = asyncio.create_task(lists.namespaces())
    for _ in range(10):
        await asyncio.sleep(0)
    if ending == "cancelled":
        listing.cancel()
    lists.released.set()
    with pytest.raises(ReviewUnavailable if ending == "failed" else asyncio.CancelledError):
        await listing
    for _ in range(10):
        await asyncio.sleep(0)
    assert len(api.access_reviews) <= 16, "only the reviews that had begun"
