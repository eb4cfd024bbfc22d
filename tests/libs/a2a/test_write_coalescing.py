"""Write coalescing: the head and the body of a small response are sent together, and large data is never held back."""

import asyncio

import pytest

from fleetwright_a2a.http.write_coalescing import MAX_PENDING, CoalescingTransport


class Underneath(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


@pytest.fixture
def underneath() -> Underneath:
    return Underneath()


@pytest.fixture
async def coalescing(underneath) -> CoalescingTransport:
    return CoalescingTransport(underneath, asyncio.get_running_loop())


async def test_writes_of_one_step_are_sent_together(underneath, coalescing):
    coalescing.write(b"head")
    coalescing.write(b"body")
    assert underneath.sent == []
    await asyncio.sleep(0)
    coalescing.write(b"next")
    await asyncio.sleep(0)
    assert underneath.sent == [b"headbody", b"next"]


async def test_large_writes_are_sent_at_once(underneath, coalescing):
    coalescing.write(b"head")
    coalescing.write(b"x" * MAX_PENDING)
    assert [len(piece) for piece in underneath.sent] == [4 + MAX_PENDING]
    coalescing.write(b"rest")
    await asyncio.sleep(0)
    assert underneath.sent[1:] == [b"rest"]


async def test_close_sends_what_was_written(underneath, coalescing):
    coalescing.write(b"last")
    coalescing.close()
    assert underneath.sent == [b"last"]
    assert coalescing.is_closing()


async def test_nothing_is_written_to_a_lost_connection(underneath, coalescing):
    coalescing.write(b"late")
    underneath.close()
    await asyncio.sleep(0)
    assert underneath.sent == []
