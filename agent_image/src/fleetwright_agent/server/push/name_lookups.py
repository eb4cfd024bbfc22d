"""Looking up names that callers chose: a few at once for each caller, so that one whose names hang delays nobody else.

Whoever waits for a place has not been looked up yet, neither well nor badly. A place is taken until its lookup ends,
also where nobody waits for that any more. Refuses: judging addresses.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final
from weakref import WeakValueDictionary

from fleetwright_agent.security.addresses import Ip

LOOKUPS: Final = 16
_OF_OWNER: Final = 2
_SECONDS: Final = 5.0

Resolve = Callable[[str, int], Awaitable[Sequence[Ip]]]
"""Raises: OSError."""


class Crowded(Exception):  # noqa: N818 - says how it is
    """No place became free in time; nothing was looked up."""


class Lookups:
    def __init__(self, resolving: Resolve | None = None, *, seconds: float = _SECONDS) -> None:
        """Args: `seconds` is how long one lookup may take."""
        # The system's resolver keeps a thread for each name; those that all the process shares stay free.
        self._threads = ThreadPoolExecutor(max_workers=LOOKUPS, thread_name_prefix="push-lookup")
        self._given = resolving
        self._seconds = seconds
        self._all = asyncio.Semaphore(LOOKUPS)
        self._of: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def addresses(self, owner: str, host: str, port: int, *, patience: float | None = None) -> Sequence[Ip]:
        """Every address of the name.

        Args:
            patience: How long to wait for a place, in seconds; as long as it takes where there is none.

        Raises:
            Crowded: There was none.
            OSError: The name is not known, or was not looked up in time.
        """
        try:
            async with asyncio.timeout(patience):
                free = await self._placed(owner)
        except TimeoutError:
            raise Crowded from None
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
                lookup.exception()  # Whoever gave up waiting does not want to hear of it.

        return free

    def _resolving(self) -> Resolve:
        if self._given is not None:
            return self._given
        from fleetwright_agent.security.pinned_http import resolve

        return partial(resolve, threads=self._threads)

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
