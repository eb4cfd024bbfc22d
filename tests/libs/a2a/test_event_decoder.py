"""The decoder of server-sent events: every way to cut a stream into pieces gives the same events."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fleetwright_a2a.http.event_decoder import EventDecoder, EventTooLarge

STREAM = (
    b'data: 1\r\n\ndata: 2\n\n: comment\r\nevent: message\rdata: {"a":\ndata:1}\r\n\r\n: ping\n\n'
    b"id: 3\ndata\n\ndata:  \xc3\xa4\r\rdata: lost"
)
EVENTS = [b"1", b"2", b'{"a":\n1}', b"", b" \xc3\xa4"]


def decoded(pieces: list[bytes]) -> list[bytes]:
    decoder = EventDecoder(limit=1000)
    return [data for piece in pieces for data in decoder.feed(piece)]


@settings(deadline=None)
@given(cuts=st.sets(st.integers(0, len(STREAM))))
def test_events_do_not_depend_on_the_pieces(cuts: set[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    assert decoded([STREAM[start:end] for start, end in pairwise(places)]) == EVENTS
    assert decoded([STREAM[place : place + 1] for place in range(len(STREAM))]) == EVENTS


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([b"\xef\xbb\xbfdata: 1\n\ndata: \xef\xbb\xbf2\n\n"], id="at once"),
        pytest.param([b"\xef", b"\xbb\xbf", b"data: 1\n\ndata: \xef\xbb\xbf2\n\n"], id="in pieces"),
    ],
)
def test_byte_order_mark_is_ignored_at_the_beginning_only(pieces: list[bytes]) -> None:
    assert decoded(pieces) == [b"1", b"\xef\xbb\xbf2"]


@pytest.mark.parametrize(
    ("pieces", "is_too_large"),
    [
        pytest.param([b"data: 1234\n\n"] * 9, False, id="many events"),
        pytest.param([b": ping\n\n"] * 9, False, id="many comments"),
        pytest.param([b"data: 123456789\n", b"data: 1234\n\n"], True, id="many lines"),
        pytest.param([b"data: 12345", b"67890", b"123456"], True, id="a line without an end"),
        pytest.param([b": 1234\n"] * 9, True, id="comments without an empty line"),
    ],
)
def test_size_of_an_event_is_limited(pieces: list[bytes], is_too_large: bool) -> None:
    decoder = EventDecoder(limit=20)
    try:
        for piece in pieces:
            list(decoder.feed(piece))
    except EventTooLarge:
        assert is_too_large
    else:
        assert not is_too_large
