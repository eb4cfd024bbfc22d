"""The buckets of callers: one for each, refilled continuously, and bounded in number."""

from types import SimpleNamespace

import pytest

from fleetwright_a2a.http.rate_limits import TokenBuckets


@pytest.fixture
def clock():
    clock = SimpleNamespace(now=0.0)
    clock.monotonic = lambda: clock.now
    return clock


def test_bucket_is_refilled_continuously(clock):
    buckets = TokenBuckets(per_minute=2, clock=clock)
    assert [buckets.take("a") for _ in range(3)] == [(0.0, 1), (0.0, 0), (30.0, 0)]
    clock.now = 30.0
    assert buckets.take("a") == (0.0, 0)


def test_callers_have_buckets_of_their_own(clock):
    buckets = TokenBuckets(per_minute=1, clock=clock)
    assert buckets.take("a")[0] == buckets.take("b")[0] == 0.0
    assert buckets.take("a")[0] > 0


def test_number_of_buckets_is_bounded(clock):
    buckets = TokenBuckets(per_minute=1, clock=clock, most=2)
    for caller in ("a", "b", "a", "c"):
        buckets.take(caller)
    assert buckets.take("a")[0] > 0, "the caller that was seen again is kept"
    assert buckets.take("b")[0] == 0.0, "the caller that was quiet longest starts again"
    assert len(buckets._buckets) == 2
