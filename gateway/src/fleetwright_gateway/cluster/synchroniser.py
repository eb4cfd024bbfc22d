"""Fills the cache and keeps it in step with the cluster: the first lists, the watches, and periodic lists."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.resources import REQUIRED, WATCHED
from fleetwright_kube.informer import TRANSIENT_ERRORS, Informer
from fleetwright_kube.port import Api

_logger = logging.getLogger(__name__)
_RETRY_SECONDS = 1.0


class Synchroniser:
    def __init__(self, api: Api, fleet: Fleet, *, namespaces: Sequence[str], resync_seconds: float) -> None:
        self.informer = Informer(api, fleet.cache, namespaces=namespaces, on_change=fleet.on_change)
        self._resync_seconds = resync_seconds
        self._problem = "the cache of agents is not filled yet"

    @property
    def problem(self) -> str:
        """The reason why nothing can be answered yet; empty if the cache is complete."""
        return self._problem

    async def run(self, *, on_filled: Callable[[], None] = lambda: None) -> None:
        """Fill the cache, and follow the cluster until cancelled. `on_filled` is called once, when the cache is full.

        No request is served between the completion of the cache and this call.
        """
        filled = await self.fill()
        while not filled:
            await asyncio.sleep(_RETRY_SECONDS)
            filled = await self.fill()
        on_filled()
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.watch_all(WATCHED))
            group.create_task(self._resync())

    async def fill(self) -> bool:
        """List everything once. Return whether the cache is complete."""
        try:
            refused = await self.informer.list_all(WATCHED)
        except TRANSIENT_ERRORS as error:
            _logger.warning("cannot list yet", extra={"why": str(error) or repr(error)})
            return False
        missing = sorted(kind.removesuffix("Metadata") for kind in refused & REQUIRED)
        self._problem = f"no permission to list {', '.join(missing)}; grant it to the gateway" if missing else ""
        return not missing

    async def _resync(self) -> None:
        while True:
            await asyncio.sleep(self._resync_seconds)
            await self.fill_again()

    async def fill_again(self) -> None:
        """List everything again to find changes that a watch missed. A failure leaves the cache as it is."""
        try:
            await self.informer.list_all(WATCHED)
        except TRANSIENT_ERRORS as error:
            _logger.warning("resync failed", extra={"why": str(error) or repr(error)})
