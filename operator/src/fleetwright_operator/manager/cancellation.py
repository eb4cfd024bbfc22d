"""Ends tasks, those too that lose a cancellation.

A gather one part of which fails in the moment in which it is cancelled, such as by the timeout of a request, ends
with that failure. Who goes on after such a failure was cancelled and does not know it.
"""

import asyncio
from collections.abc import Collection
from typing import Any

_AGAIN_SECONDS = 2.0
"""Longer than it takes to end in good order, and than a cancellation needs to be lost once more by chance."""


async def stopped(tasks: Collection[asyncio.Task[Any]], *, again: float = _AGAIN_SECONDS) -> None:
    """Returns when all have ended, however; they are cancelled, and after `again` seconds once more, and so on."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again)
    # What they raised is nobody's any more.
    await asyncio.gather(*tasks, return_exceptions=True)
