"""Cancelled tasks end, even if they fail at the same time."""

import asyncio

from tests.support.waiting import within

from fleetwright_operator.manager.cancellation import cancel_and_wait


async def _request(goes_wrong: list[bool]) -> None:
    """A request whose timeout coincides with its cancellation, for each true item of `goes_wrong`."""
    try:
        await asyncio.sleep(3600)
    except asyncio.CancelledError:
        if goes_wrong and goes_wrong.pop():
            raise TimeoutError from None
        raise


async def _lists_again_and_again(goes_wrong: list[bool]) -> None:
    while True:
        try:
            await asyncio.gather(_request(goes_wrong), asyncio.sleep(3600))
        except TimeoutError:
            continue


async def test_cancel_and_wait_repeats_a_swallowed_cancellation():
    task = asyncio.create_task(_lists_again_and_again([True, True]))
    await asyncio.sleep(0)
    async with within("the task is cancelled"):
        await cancel_and_wait([task], again=0.01)
    assert task.cancelled()


async def test_cancel_and_wait_cancels_a_cooperative_task_once():
    """A task that ends in time is cancelled once, and its exception is not raised."""
    told = []

    async def tidies() -> None:
        try:
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            told.append("cancelled")
            await asyncio.sleep(0.05)
            raise RuntimeError("too late") from None

    task = asyncio.create_task(tidies())
    await asyncio.sleep(0)
    await cancel_and_wait([task], again=10)
    assert told == ["cancelled"]
    assert isinstance(task.exception(), RuntimeError)
