"""The work queue: keys are deduplicated, handled by one worker at a time, and delayed after a failure."""

import asyncio

import pytest

from fleetwright_operator.manager.work_queue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(base_seconds=0.01, cap_seconds=0.04, jitter=lambda: 1.0)


async def test_work_queue_deduplicates_keys(queue):
    for _ in range(3):
        queue.add("a")
    assert queue.depth == 1
    assert await queue.get() == "a"
    assert queue.depth == 0


async def test_work_queue_serves_fresh_keys_before_the_backlog(queue):
    for key in ("old-1", "old-2"):
        queue.add(key, fresh=False)
    queue.add("new")
    queue.add("old-2")
    assert [await queue.get() for _ in range(3)] == ["new", "old-2", "old-1"]


async def test_work_queue_defers_a_key_in_progress_until_done(queue):
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.02)
    queue.done(key)
    assert await asyncio.wait_for(queue.get(), 1) == "a"


async def test_work_queue_backoff_grows_to_a_cap_and_is_reset(queue):
    assert [queue.retry("a") for _ in range(4)] == [0.01, 0.02, 0.04, 0.04]
    queue.forget("a")
    assert queue.retry("a") == 0.01
    assert queue.retry("a", at_least=3.0) == 3.0


async def test_work_queue_retries_a_server_error_within_two_seconds():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    assert [queue.retry("a", server_error=True) for _ in range(6)] == [0.2, 0.4, 0.8, 1.6, 1.8, 1.8]


async def test_work_queue_limits_the_rate_of_many_failing_keys():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    keys = [f"key-{number}" for number in range(400)]
    for _ in range(8):
        pauses = [queue.retry(key, server_error=True) for key in keys]
    assert 19 < pauses[-1] <= 20
    for key in keys:
        queue.add(key)


async def test_work_queue_retry_respects_at_most():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    pauses = [queue.retry("a", at_least=1.0, at_most=1.5, server_error=True) for _ in range(5)]
    assert pauses == [1.0, 1.0, 1.0, 1.5, 1.5]


async def test_work_queue_jitter_halves_the_delay_at_most():
    queue: WorkQueue[str] = WorkQueue(base_seconds=1.0, jitter=lambda: 0.0)
    assert queue.retry("a") == 0.5
    queue.add("a")


async def test_work_queue_add_ends_a_delay_early(queue):
    queue.add_after("a", 0.01)
    queue.add_after("b", 60)
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    queue.add("b")
    assert await asyncio.wait_for(queue.get(), 1) == "b"
    assert queue.pausing == 0


async def test_work_queue_delivers_a_promoted_key_once(queue):
    queue.add("a", fresh=False)
    queue.add("a", fresh=True)
    assert await queue.get() == "a"
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.02)
