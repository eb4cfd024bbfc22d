"""DNS lookups of host names that callers chose, with a limit for each caller.

Because of the limit, slow lookups of one caller do not delay the lookups of other callers. A lookup counts until it
ends, even if its caller has stopped waiting. This module does not decide which addresses are allowed.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from fleetwright_a2a.outbound.policy.addresses import Ip

LOOKUPS: Final = 16
_OF_OWNER: Final = 2
_SECONDS: Final = 5.0

Resolve = Callable[[str, int], Awaitable[Sequence[Ip]]]
"""Raises: OSError."""


class TooManyLookups(Exception):  # noqa: N818 - says how it is
    """The limit of concurrent lookups was reached for too long, so the name was not looked up."""


class NameLookups:
    def __init__(self, resolving: Resolve | None = None, *, seconds: float = _SECONDS) -> None:
        """Args: `seconds` is the time limit of one lookup."""
        # The system's resolver blocks a thread for each name. A separate pool keeps the default executor free.
        self._threads = ThreadPoolExecutor(max_workers=LOOKUPS, thread_name_prefix="push-lookup")
        self._given = resolving
        self._seconds = seconds
        self._all = asyncio.Semaphore(LOOKUPS)
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def addresses(self, owner: str, host: str, port: int, *, patience: float | None = None) -> Sequence[Ip]:
        """Return every address of the name.

        Args:
            patience: The longest wait for a free lookup, in seconds; None for an unlimited wait.

        Raises:
            TooManyLookups: The limit of concurrent lookups was reached for too long.
            OSError: The name is unknown, or the lookup took too long.
        """
        try:
            async with asyncio.timeout(patience):
                free = await self._placed(owner)
        except TimeoutError:
            raise TooManyLookups from None
        lookup = asyncio.ensure_future(self._resolving()(host, port))
        lookup.add_done_callback(free)
        async with asyncio.timeout(self._seconds):
            return await asyncio.shield(lookup)

    async def _placed(self, owner: str) -> "Callable[[asyncio.Future[Any]], None]":
        mine = self._of.setdefault(owner, asyncio.Semaphore(_OF_OWNER))
        await mine.acquire()
        try:
            await self._all.acquire()
        except BaseException:
            mine.release()
            raise

        def free(lookup: "asyncio.Future[Any]") -> None:
            self._all.release()
            mine.release()
            if not lookup.cancelled():
                lookup.exception()  # Marks the exception as retrieved: the caller may have stopped waiting.

        return free

    def _resolving(self) -> Resolve:
        if self._given is not None:
            return self._given
        from fleetwright_a2a.outbound.pinned_http import resolve

        return partial(resolve, threads=self._threads)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
