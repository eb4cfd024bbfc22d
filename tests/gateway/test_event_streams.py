"""The limits of event streams count each stream from its request until its response has ended."""

import asyncio
from collections import Counter
from contextlib import AsyncExitStack

import pytest
from starlette.requests import ClientDisconnect

from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.identity.principals import PersonPrincipal, User
from fleetwright_gateway.registry.events import EventResponse, EventStreams

ADA, GRACE = (PersonPrincipal(user=User(username=name)) for name in ("ada", "grace"))


class SlowListing:
    """Lists no agents, and answers when the test opens it."""

    def __init__(self) -> None:
        self.is_open = asyncio.Event()
        self.error: Exception | None = None

    async def list(self, caller, namespace=""):
        await self.is_open.wait()
        if self.error is not None:
            raise self.error
        return []

    async def listed(self, caller, namespace, name):
        return None

    async def spaces(self, caller):
        return frozenset()


@pytest.fixture
def listing() -> SlowListing:
    return SlowListing()


@pytest.fixture
def streams(listing) -> EventStreams:
    return EventStreams(listing, Fleet())


async def opened(streams: EventStreams, caller: PersonPrincipal, count: int) -> Counter[str]:
    """Open streams at the same time, close them, and count the results."""
    async with AsyncExitStack() as stack:
        opening = [stack.enter_async_context(streams.open(caller)) for _ in range(count)]
        found = await asyncio.gather(*opening, return_exceptions=True)
        return Counter("refused" if isinstance(each, Refused) else "open" for each in found)


async def test_concurrent_streams_cannot_exceed_the_limit(streams, listing):
    opening = asyncio.create_task(opened(streams, ADA, 8))
    others = asyncio.create_task(opened(streams, GRACE, 2))
    await asyncio.sleep(0)
    listing.is_open.set()
    assert await opening == {"open": 5, "refused": 3}
    assert await others == {"open": 2}
    assert await opened(streams, ADA, 5) == {"open": 5}, "the streams were closed without an event"


async def test_stream_that_cannot_begin_does_not_count(streams, listing):
    listing.is_open.set()
    listing.error = Refused(503, "The permissions cannot be checked.")
    for _ in range(6):
        with pytest.raises(Refused, match="permissions"):
            async with streams.open(ADA):
                pass
    listing.error = None
    assert await opened(streams, ADA, 5) == {"open": 5}


async def test_response_that_never_starts_does_not_count(streams, listing):
    listing.is_open.set()

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        raise OSError("the caller has disconnected")

    scope = {"type": "http", "asgi": {"spec_version": "2.4"}}
    for _ in range(6):
        with pytest.raises(ClientDisconnect):
            await EventResponse(streams, ADA)(scope, receive, send)
    assert await opened(streams, ADA, 5) == {"open": 5}
