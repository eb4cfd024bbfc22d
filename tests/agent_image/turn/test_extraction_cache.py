"""Incremental extraction for compaction: it equals a single pass, and its cache holds only a few conversations."""

import pytest
from tests.bench.compaction.properties import history

from fleetwright_agent.turn.compaction.extraction_cache import ExtractionCache, ExtractionCaches

MESSAGES = history(3)


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([(len(MESSAGES), None)], id="at once"),
        pytest.param([(end, 2) for end in range(1, len(MESSAGES) + 1)], id="as it grows"),
        pytest.param([(len(MESSAGES), 3)] * len(MESSAGES), id="a few at a time"),
        pytest.param([(len(MESSAGES) // 2, None)], id="half of it"),
    ],
)
def test_extraction_cache_is_independent_of_read_order(pieces: list[tuple[int, int | None]]) -> None:
    reading, whole = ExtractionCache(), ExtractionCache()
    for end, most in pieces:
        reading.read(MESSAGES[:end], behind=0, most=most)
    reading.read(MESSAGES, behind=0)
    whole.read(MESSAGES, behind=0)
    assert reading.found(MESSAGES) == whole.found(MESSAGES) == ExtractionCache().found(MESSAGES)
    assert reading.words == whole.words
    assert whole.words.total() > 0


def test_extraction_cache_rereads_forgotten_messages() -> None:
    reading = ExtractionCache()
    reading.read(MESSAGES, behind=0)
    before = reading.found(MESSAGES)
    reading.forget(MESSAGES)
    assert before
    assert reading.found(MESSAGES) == before


def test_extraction_caches_keep_the_most_recently_used() -> None:
    readings = ExtractionCaches(most=2)
    first, second = readings.of("a"), readings.of("b")
    assert readings.of("a") is first
    readings.of("c")
    assert readings.of("a") is first
    assert readings.of("b") is not second
