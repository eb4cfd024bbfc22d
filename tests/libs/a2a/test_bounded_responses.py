"""Endless responses: the client reads them up to a limit and then releases the connection."""

from collections.abc import AsyncIterator

import httpx
import pytest

from fleetwright_a2a.outbound.bounded_responses import BoundedTransport, TooLarge


class Endless(httpx.AsyncByteStream):
    def __init__(self, most: int) -> None:
        self.most = most
        self.given = 0
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while self.given < self.most:
            self.given += 100
            yield b"x" * 100

    async def aclose(self) -> None:
        self.closed = True


def reading(stream: Endless, **headers: str) -> httpx.AsyncClient:
    inner = httpx.MockTransport(lambda _: httpx.Response(200, headers=headers, stream=stream))
    return httpx.AsyncClient(transport=BoundedTransport(inner, document=1_000, stream=5_000), base_url="http://p")


@pytest.mark.parametrize(
    ("method", "most"),
    [
        pytest.param("GET", 1_000, id="a document"),
        pytest.param("POST", 5_000, id="what a call is answered with"),
    ],
)
async def test_bounded_transport_stops_reading_at_the_limit(method: str, most: int) -> None:
    whole, more = Endless(most), Endless(10**9)
    async with reading(whole) as client:
        assert len((await client.request(method, "/")).content) == most
    async with reading(more) as client:
        with pytest.raises(TooLarge):
            await client.request(method, "/")
    assert more.given == most + 100
    assert more.closed


async def test_bounded_transport_refuses_compressed_responses() -> None:
    stream = Endless(100)
    async with reading(stream, **{"content-encoding": "gzip"}) as client:
        with pytest.raises(TooLarge):
            await client.get("/")
    assert (stream.given, stream.closed) == (0, True)


class Pieces(httpx.AsyncByteStream):
    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece


@pytest.mark.parametrize(
    ("pieces", "read"),
    [
        pytest.param([b"data: x\n\n" * 10] * 100, True, id="events without end, each of them small"),
        pytest.param([b"data: x\n", b"\n"] * 1000, True, id="events that end between two pieces"),
        pytest.param([b"data: x\r\n\r", b"\n"] * 1000, True, id="with the other ends of lines"),
        pytest.param([bytes([byte]) for byte in b"data: x\r\n\r\n" * 100], True, id="that come a byte at a time"),
        pytest.param([bytes([byte]) for byte in b"data: x\r\n" * 20], False, id="lines a byte at a time, and no end"),
        pytest.param([b"data: x\n\ndata: ", b"x" * 90, b"\n\n"], True, id="a large one after a small one"),
        pytest.param([b"data: ", b"x" * 50, b"x" * 50], False, id="one that is too large"),
        pytest.param([b"data: x\n\n", b"data: x\n" * 13], False, id="one of too many lines"),
    ],
)
async def test_bounded_transport_limits_each_event_of_a_get_stream(pieces: list[bytes], read: bool) -> None:
    """A GET event stream may be endless, but each event of it is limited."""
    inner = httpx.MockTransport(
        lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(*pieces))
    )
    bounded = BoundedTransport(inner, document=10, stream=10, event=100)
    async with httpx.AsyncClient(transport=bounded, base_url="http://p") as client:
        if read:
            assert (await client.get("/")).content == b"".join(pieces)
        else:
            with pytest.raises(TooLarge):
                await client.get("/")


async def test_bounded_transport_limits_events_and_total_of_a_post() -> None:
    """A POST response is limited in total, and each event of it is limited."""

    def client(*pieces: bytes) -> httpx.AsyncClient:
        inner = httpx.MockTransport(
            lambda _: httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=Pieces(*pieces))
        )
        bounded = BoundedTransport(inner, document=10, stream=1_000, answered_event=100)
        return httpx.AsyncClient(transport=bounded, base_url="http://p")

    small = [b"data: " + b"x" * 80 + b"\n\n"] * 5
    async with client(*small) as http:
        assert (await http.post("/")).content == b"".join(small)
    async with client(*small, b"data: " + b"x" * 120) as http:
        with pytest.raises(TooLarge, match="an event"):
            await http.post("/")
    async with client(*small * 3) as http:
        with pytest.raises(TooLarge, match="the response exceeds the limit"):
            await http.post("/")
