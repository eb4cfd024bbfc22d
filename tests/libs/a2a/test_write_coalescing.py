"""Write coalescing: the head and the body of a small response are sent together, and large data is never held back."""

import asyncio

import pytest

from fleetwright_a2a.http.write_coalescing import MAX_PENDING, CoalescingTransport


class Underneath(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []
        self.closed = False
        self.aborted = False
        self.protocol = asyncio.BaseProtocol()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent.append(bytes(data))

    def close(self) -> None:
        self.closed = True

    def abort(self) -> None:
        self.closed = self.aborted = True

    def is_closing(self) -> bool:
        return self.closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol

    def get_write_buffer_size(self) -> int:
        return 5

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.sent.append(b"<end>")


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


async def test_large_writes_are_sent_at_once_and_not_copied(underneath, coalescing):
    body = b"x" * (MAX_PENDING + 1)
    coalescing.write(b"head")
    coalescing.write(body)
    assert underneath.sent == [b"head", body]
    assert underneath.sent[1] is body, "joining it with the head would copy it"
    coalescing.write(b"rest")
    await asyncio.sleep(0)
    assert underneath.sent[2:] == [b"rest"]


async def test_many_small_writes_are_sent_before_the_next_step(underneath, coalescing):
    for _ in range(5):
        coalescing.write(b"x" * (MAX_PENDING // 4))
    assert [len(piece) for piece in underneath.sent] == [5 * MAX_PENDING // 4]


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


async def test_a_new_protocol_follows_what_was_written(underneath, coalescing):
    new = asyncio.BaseProtocol()
    coalescing.write(b"head")
    coalescing.set_protocol(new)
    assert underneath.sent == [b"head"]
    assert coalescing.get_protocol() is new


async def test_abort_discards_what_was_not_sent(underneath, coalescing):
    coalescing.write(b"late")
    coalescing.abort()
    await asyncio.sleep(0)
    assert (underneath.sent, underneath.aborted) == ([], True)


async def test_write_buffer_size_includes_pending_data(coalescing):
    coalescing.write(b"head")
    assert coalescing.get_write_buffer_size() == 9


async def test_the_end_of_the_stream_follows_the_data(underneath, coalescing):
    coalescing.write(b"last")
    assert coalescing.can_write_eof()
    coalescing.write_eof()
    assert underneath.sent == [b"last", b"<end>"]
