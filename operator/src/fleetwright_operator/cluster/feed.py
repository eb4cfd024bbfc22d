"""Brings lists and events into the cache: the barrier at start, the periodic re-list, and watches of our own.

kopf brings the events of the watched kinds. Metadata of Secrets and ConfigMaps that are only referenced is
watched here, because kopf cannot watch metadata alone.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

import aiohttp

from fleetwright_operator.cluster.cache import Cache, Change
from fleetwright_operator.cluster.port import Api, Object, Resource
from fleetwright_operator.errors import ApiError, Expired

logger = logging.getLogger(__name__)
LOST = (ApiError, aiohttp.ClientError, TimeoutError, OSError)
"""What a broken connection or a refusing server looks like."""


class Feed:
    def __init__(
        self,
        api: Api,
        cache: Cache,
        *,
        namespaces: Sequence[str],
        on_change: Callable[[Change], None],
        pause: float = 1.0,
    ) -> None:
        self._api = api
        self._cache = cache
        self._namespaces: Sequence[str | None] = namespaces or (None,)
        self._on_change = on_change
        self._pause = pause

    async def list_all(self, resources: Sequence[Resource]) -> None:
        """Lists every resource and reports what changed since it was last seen."""
        await asyncio.gather(*(self._list(resource, space) for resource in resources for space in self._namespaces))

    def event(self, kind: str, event_type: str | None, body: Object) -> None:
        """One event of a watch, whoever watches."""
        if event_type == "DELETED":
            metadata = body["metadata"]
            change = self._cache.drop(kind, metadata.get("namespace", ""), metadata["name"], uid=metadata["uid"])
        else:
            change = self._cache.put(kind, body)
        if change is not None:
            self._on_change(change)

    async def watch_all(self, resources: Sequence[Resource]) -> None:
        """Watches until cancelled; a stream that breaks or is too old is started again from a list."""
        async with asyncio.TaskGroup() as group:
            for resource in resources:
                for namespace in self._namespaces:
                    group.create_task(self._watch(resource, namespace))

    async def _list(self, resource: Resource, namespace: str | None) -> str:
        listing = await self._api.list(resource, namespace=namespace)
        for change in self._cache.replace(resource, listing, namespace=namespace):
            self._on_change(change)
        return listing.resource_version

    async def _watch(self, resource: Resource, namespace: str | None) -> None:
        version: str | None = None
        while True:
            try:
                version = version or await self._list(resource, namespace)
                stream = self._api.watch(resource, namespace=namespace, resource_version=version)
                async for event_type, body in stream:
                    version = body["metadata"]["resourceVersion"]
                    if event_type != "BOOKMARK":
                        self.event(resource.kind, event_type, body)
            except Expired:
                version = None
            except LOST as error:
                logger.warning("watch lost", extra={"kind": resource.kind, "error": str(error) or repr(error)})
                version = None
                await asyncio.sleep(self._pause)
