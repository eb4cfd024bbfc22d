"""Brings lists and events into the cache: the barrier at start, the periodic re-list, and watches of our own.

kopf brings the events of what people write. Children are watched here: kopf lists everything once more at its start,
remembers every object it ever saw, and takes five times as long over an event. So is what is seen by its metadata
only, which kopf cannot, and a kind that may not be listed, until it may be, because kopf would give up. Such a kind
stays unknown, and the rest goes on: writing it says which right is missing. The same goes for a kind that the cluster
does not serve, if it is one that Kubernetes does not bring itself.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import aiohttp

from fleetwright_operator.kube.cache import Cache, Change
from fleetwright_operator.kube.cached_object import entry_of
from fleetwright_operator.kube.errors import ApiError, Expired, Forbidden, Missing
from fleetwright_operator.kube.port import Api, Object, Resource

logger = logging.getLogger(__name__)
LOST = (ApiError, aiohttp.ClientError, TimeoutError, OSError)
"""What a broken connection or a refusing server looks like."""
_FORBIDDEN_PAUSES = 10
_LISTS_AT_ONCE = 2
"""Of whole objects, most of which are forgotten at once: what lies in memory together bounds what the process keeps."""


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
        self._gate = asyncio.Semaphore(_LISTS_AT_ONCE)
        self._listed: dict[tuple[str, str | None], str] = {}
        """By kind and namespace: the version of the last list."""

    async def list_all(self, resources: Sequence[Resource]) -> set[str]:
        """Lists every resource and reports what changed since it was last seen; the kinds that may not be listed."""
        places = self._places(resources)
        refused = await asyncio.gather(*(self._refused(resource, space) for resource, space in places))
        return {kind for kind in refused if kind}

    def event(self, kind: str, event_type: str | None, body: Object) -> None:
        """One event of a watch, whoever watches."""
        if event_type == "DELETED":
            metadata = body["metadata"]
            place = (kind, metadata.get("namespace", ""), metadata["name"])
            change = self._cache.drop(*place, uid=metadata["uid"], version=metadata["resourceVersion"])
        else:
            change = self._cache.put(kind, body)
        if change is not None:
            self._on_change(change)

    async def watch_all(self, resources: Sequence[Resource]) -> None:
        """Watches until cancelled; a stream that breaks or is too old is started again from a list."""
        async with asyncio.TaskGroup() as group:
            for resource, namespace in self._places(resources):
                group.create_task(self._watch(resource, namespace))

    def _places(self, resources: Sequence[Resource]) -> Iterator[tuple[Resource, str | None]]:
        """Where each resource is looked at: what has no namespace is out of reach for an operator that has some."""
        for resource in resources:
            for namespace in self._namespaces:
                if resource.namespaced or namespace is None:
                    yield resource, namespace

    async def _refused(self, resource: Resource, namespace: str | None) -> str:
        try:
            await self._list(resource, namespace)
        except Forbidden as error:
            logger.error("may not be listed", extra={"kind": resource.kind, "why": error.message})
            return resource.kind
        except Missing:
            if not resource.if_unserved:
                raise
            logger.error("is not served", extra={"kind": resource.kind, "why": resource.if_unserved})
            return resource.kind
        return ""

    async def _list(self, resource: Resource, namespace: str | None) -> str:
        async with self._gate:
            listing = await self._api.list(resource, namespace=namespace, keep=partial(entry_of, resource.kind))
            for change in self._cache.replace(resource, listing, namespace=namespace):
                self._on_change(change)
        self._listed[resource.kind, namespace] = listing.resource_version
        return listing.resource_version

    async def _watch(self, resource: Resource, namespace: str | None) -> None:
        # What was listed need not be listed again.
        version = self._listed.get((resource.kind, namespace))
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
                await asyncio.sleep(self._pause)
            except (Forbidden, Missing):
                version = None
                await asyncio.sleep(_FORBIDDEN_PAUSES * self._pause)
            except LOST as error:
                logger.warning("watch lost", extra={"kind": resource.kind, "error": str(error) or repr(error)})
                version = None
                await asyncio.sleep(self._pause)
