"""Cancels tasks reliably, including tasks that lose a cancellation.

If one part of an `asyncio.gather` fails while it is being cancelled, for example by a timeout, `gather` raises that
error instead of the cancellation. A task that handles the error and continues has lost the cancellation.
"""

import asyncio
from collections.abc import Collection
from typing import Any

_AGAIN_SECONDS = 2.0
"""Longer than a regular shutdown takes, so that a second cancellation is rare."""


async def cancel_and_wait(tasks: Collection[asyncio.Task[Any]], *, again: float = _AGAIN_SECONDS) -> None:
    """Cancel the tasks every `again` seconds, and return when all have ended."""
    pending = set(tasks)
    while pending:
        for task in pending:
            task.cancel()
        _, pending = await asyncio.wait(pending, timeout=again)
    # Retrieve the tasks' exceptions, so that asyncio does not log them.
    await asyncio.gather(*tasks, return_exceptions=True)
