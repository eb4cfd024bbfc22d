"""Waits: the ceiling, and what a failure says."""

import asyncio

import pytest
from tests.support import machine
from tests.support.waiting import NotInTimeError, await_until, wait_until, within

SHORT = 0.01
"""Seconds that are promised in these tests. The ceiling is ten times as long."""


@pytest.mark.parametrize(
    ("promised", "seconds"),
    [
        pytest.param(2.0, 20.0, id="ten times the promise"),
        pytest.param(60.0, 180.0, id="never above 180 seconds"),
    ],
)
def test_ceiling_grows_with_the_factor_of_the_machine(monkeypatch, promised, seconds):
    monkeypatch.setenv(machine.VARIABLE, "1.5")
    assert machine.ceiling(promised) == seconds * 1.5


def test_outer_ceiling_leaves_time_for_the_message_of_a_wait(monkeypatch):
    monkeypatch.setenv(machine.VARIABLE, "1.5")
    assert machine.outer_ceiling() == 200.0 * 1.5


def test_wait_until_returns_the_first_truthy_result():
    results = iter([None, 0, "ready"])
    assert wait_until(lambda: next(results), "ready") == "ready"


def test_wait_until_says_what_was_expected_and_last_seen():
    with pytest.raises(NotInTimeError, match=r"not within \d+ s: the agent is ready; last seen: Pending"):
        wait_until(lambda: False, "the agent is ready", promised=SHORT, shown=lambda: "Pending")


def test_wait_until_ends_when_the_condition_can_no_longer_hold():
    def exited():
        raise AssertionError("the process exited")

    with pytest.raises(AssertionError, match="the process exited"):
        wait_until(lambda: False, "the agent is ready", alive=exited)


async def test_await_until_takes_functions_and_coroutine_functions():
    async def ready():
        return "ready"

    assert await await_until(ready, "ready") == await await_until(lambda: "ready", "ready")


async def test_await_until_interrupts_a_condition_that_does_not_return():
    async def endless():
        await asyncio.Event().wait()

    with pytest.raises(NotInTimeError, match="an answer; last seen: None"):
        await await_until(endless, "an answer", promised=SHORT)


async def test_within_names_what_did_not_happen():
    with pytest.raises(NotInTimeError, match=r"not within \d+ s: the stream ends"):
        async with within("the stream ends", promised=SHORT):
            await asyncio.Event().wait()


async def test_within_leaves_a_timeout_of_the_block_alone():
    with pytest.raises(TimeoutError, match="of the block"):
        async with within("the stream ends"):
            raise TimeoutError("of the block")
