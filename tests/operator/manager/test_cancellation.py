"""Cancelled tasks end, even if they fail at the same time."""

import asyncio

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


async def test_a_task_that_takes_its_cancellation_for_a_failed_request_is_cancelled_again():
    task = asyncio.create_task(_lists_again_and_again([True, True]))
    await asyncio.sleep(0)
    async with asyncio.timeout(10):
        await cancel_and_wait([task], again=0.01)
    assert task.cancelled()


async def test_who_ends_in_good_order_is_cancelled_once_and_what_it_raises_is_kept_quiet():
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
