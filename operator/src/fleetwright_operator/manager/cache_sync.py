"""Keeps the cache in step with the cluster: the first lists, the watches, and periodic lists."""

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence

from fleetwright_kube.cache import Cache
from fleetwright_kube.informer import TRANSIENT_ERRORS, Informer
from fleetwright_kube.port import Api, Resource
from fleetwright_operator.kinds.resources import (
    CILIUM_POLICIES,
    NAMESPACE_RULES,
    OBSERVED,
    WATCHED,
    own_card_keys,
    own_gateway_keys,
    own_key_set,
)
from fleetwright_operator.manager.api_server_addresses import check_api_server
from fleetwright_operator.manager.enqueuer import Enqueuer
from fleetwright_operator.manager.work_queue import WorkQueue
from fleetwright_operator.observe.index_keys import OWN_KINDS, Key
from fleetwright_operator.settings import Cilium, Settings

logger = logging.getLogger(__name__)
_SOON_SECONDS = 10.0


class CacheSync:
    def __init__(
        self, api: Api, cache: Cache, *, settings: Settings, enqueuer: Enqueuer, queue: WorkQueue[Key]
    ) -> None:
        self._api = api
        self._cache = cache
        self._settings = settings
        self._enqueuer = enqueuer
        self._queue = queue
        self.informer = Informer(api, cache, namespaces=settings.namespaces, on_change=enqueuer.enqueue)
        self._own_informer = Informer(api, cache, namespaces=(settings.lease_namespace,), on_change=enqueuer.enqueue)
        others = () if settings.cilium is Cilium.OFF else (CILIUM_POLICIES,)
        self._watched = (*WATCHED, *OBSERVED, *NAMESPACE_RULES, *others)
        gateway = (own_gateway_keys(settings.gateway.keys_name),) if settings.gateway else ()
        self._own = (own_card_keys(settings.card_keys_name), own_key_set(settings.card_keys_name), *gateway)

    async def synchronise(self) -> set[str]:
        """List everything before anything is written, and return the kinds that may not be listed."""
        forbidden = await self._list_all()
        self._enqueuer.live = True
        return forbidden

    async def synchronise_with_retries(self) -> set[str]:
        while True:
            try:
                return await self.synchronise()
            except TRANSIENT_ERRORS as error:
                logger.warning("cannot list yet", extra={"why": str(error) or repr(error)})
                await asyncio.sleep(1)

    async def watch(self, forbidden: set[str]) -> None:
        """Watch everything that kopf does not watch, until cancelled."""
        kopfs = kopf_resources(forbidden)
        ours = [resource for resource in self._watched if resource not in kopfs]
        async with asyncio.TaskGroup() as group:
            group.create_task(self.informer.watch_all(ours))
            group.create_task(self._own_informer.watch_all(self._own))

    async def bridge(self, kopfs: Sequence[Resource]) -> None:
        """Watch kopf's kinds from our last list, for as long as kopf usually needs to read its own list.

        kopf never reports objects that are deleted between the two lists.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2 * _SOON_SECONDS):
                await self.informer.watch_all(kopfs)

    async def resync(self, *, every: float, on_done: Callable[[], None]) -> None:
        """List everything periodically to find changes that a watch missed.

        Runs until it is cancelled or until the API server moves. The first list follows soon, because the first
        watches may have missed events.
        """
        await asyncio.sleep(min(every, _SOON_SECONDS))
        await self._list_again()
        while True:
            await asyncio.sleep(every)
            if not await self._list_again():
                continue
            on_done()
            for kind in OWN_KINDS:
                for entry in self._cache.all(kind):
                    self._queue.add(entry.id, fresh=False)

    async def _list_again(self) -> bool:
        try:
            await self._list_all()
            if self._settings.deny_api_server:
                await check_api_server(self._api, self._settings)
        except TRANSIENT_ERRORS as error:
            logger.warning("resync failed", extra={"why": str(error) or repr(error)})
            return False
        return True

    async def _list_all(self) -> set[str]:
        refused = await asyncio.gather(self.informer.list_all(self._watched), self._own_informer.list_all(self._own))
        return set.union(*refused)


def kopf_resources(forbidden: set[str]) -> list[Resource]:
    """Return the kinds that users write and that may be listed. kopf would stop at a kind that may not be listed."""
    return [resource for resource in WATCHED if resource.kind in OWN_KINDS and resource.kind not in forbidden]
