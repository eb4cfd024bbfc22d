"""The work queue: keys are deduplicated, handled by one worker at a time, and delayed after a failure."""

import asyncio

import pytest

from fleetwright_operator.manager.work_queue import WorkQueue


@pytest.fixture
def queue() -> WorkQueue[str]:
    return WorkQueue(base_seconds=0.01, cap_seconds=0.04, jitter=lambda: 1.0)


async def test_a_key_waits_once_however_often_it_is_added(queue):
    for _ in range(3):
        queue.add("a")
    assert queue.depth == 1
    assert await queue.get() == "a"
    assert queue.depth == 0


async def test_fresh_keys_overtake_the_backlog(queue):
    for key in ("old-1", "old-2"):
        queue.add(key, fresh=False)
    queue.add("new")
    queue.add("old-2")
    assert [await queue.get() for _ in range(3)] == ["new", "old-2", "old-1"]


async def test_a_key_that_is_worked_on_comes_again_afterwards_and_not_before(queue):
    queue.add("a")
    key = await queue.get()
    queue.add("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.02)
    queue.done(key)
    assert await asyncio.wait_for(queue.get(), 1) == "a"


async def test_pauses_grow_to_a_cap_and_success_resets_them(queue):
    assert [queue.retry("a") for _ in range(4)] == [0.01, 0.02, 0.04, 0.04]
    queue.forget("a")
    assert queue.retry("a") == 0.01
    assert queue.retry("a", at_least=3.0) == 3.0


async def test_what_is_not_a_keys_own_fault_is_tried_again_within_two_seconds_while_few_fail():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    assert [queue.retry("a", server_error=True) for _ in range(6)] == [0.2, 0.4, 0.8, 1.6, 1.8, 1.8]


async def test_many_failing_keys_together_come_back_at_a_bounded_rate():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    keys = [f"key-{number}" for number in range(400)]
    for _ in range(8):
        pauses = [queue.retry(key, server_error=True) for key in keys]
    assert 19 < pauses[-1] <= 20
    for key in keys:
        queue.add(key)


async def test_no_pause_is_longer_than_is_asked_for():
    queue: WorkQueue[str] = WorkQueue(jitter=lambda: 1.0)
    pauses = [queue.retry("a", at_least=1.0, at_most=1.5, server_error=True) for _ in range(5)]
    assert pauses == [1.0, 1.0, 1.0, 1.5, 1.5]


async def test_jitter_takes_away_at_most_half():
    queue: WorkQueue[str] = WorkQueue(base_seconds=1.0, jitter=lambda: 0.0)
    assert queue.retry("a") == 0.5
    queue.add("a")


async def test_a_pausing_key_comes_back_and_news_of_it_ends_the_pause(queue):
    queue.add_after("a", 0.01)
    queue.add_after("b", 60)
    assert await asyncio.wait_for(queue.get(), 1) == "a"
    queue.done("a")
    queue.add("b")
    assert await asyncio.wait_for(queue.get(), 1) == "b"
    assert queue.pausing == 0


async def test_a_waiting_worker_gets_a_key_that_was_promoted_exactly_once(queue):
    queue.add("a", fresh=False)
    queue.add("a", fresh=True)
    assert await queue.get() == "a"
    queue.done("a")
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(queue.get(), 0.02)
