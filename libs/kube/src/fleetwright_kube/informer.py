"""Puts the results of lists and watches into the cache: the list at start, the periodic list, and all watch events.

kopf watches the kinds that users write. This module watches the other kinds:

- Children, because kopf would list them a second time, keep whole objects in memory, and take five times as long per
  event.
- Metadata-only kinds, because kopf does not support them.
- Kinds without permission to list, until the permission is granted, because kopf would give up. In the meantime, the
  operator works without the objects of this kind, and an error on writing one names the missing permission.
- Kinds of an optional API that the cluster does not serve yet, in the same way.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import aiohttp

from fleetwright_kube.cache import Cache, Change
from fleetwright_kube.cached_object import cached_object
from fleetwright_kube.errors import ApiError, ForbiddenError, GoneError, NotFoundError
from fleetwright_kube.port import Api, Object, Resource

logger = logging.getLogger(__name__)
CONNECTION_ERRORS = (aiohttp.ClientError, TimeoutError, OSError)
TRANSIENT_ERRORS = (ApiError, *CONNECTION_ERRORS)
"""The errors of a broken connection or a failing server."""
_FORBIDDEN_PAUSES = 10
_LISTS_AT_ONCE = 2
"""The limit of concurrent lists. It bounds the memory of the process, because a list contains whole objects."""


class Informer:
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
        """The resource version of the last list, by kind and namespace."""

    async def list_all(self, resources: Sequence[Resource]) -> set[str]:
        """List every resource, and report the changes. Return the kinds that may not be listed."""
        places = self._places(resources)
        refused = await asyncio.gather(*(self._refused(resource, space) for resource, space in places))
        return {kind for kind in refused if kind}

    def event(self, kind: str, event_type: str | None, body: Object) -> None:
        """Apply one event of a watch to the cache."""
        if event_type == "DELETED":
            metadata = body["metadata"]
            place = (kind, metadata.get("namespace", ""), metadata["name"])
            change = self._cache.drop(*place, uid=metadata["uid"], version=metadata["resourceVersion"])
        else:
            change = self._cache.put(kind, body)
        if change is not None:
            self._on_change(change)

    async def watch_all(self, resources: Sequence[Resource]) -> None:
        """Watch until cancelled.

        After a broken connection, the watch continues with the last event. After an error of the API server, such as an
        expired version, it begins again with a list.
        """
        async with asyncio.TaskGroup() as group:
            for resource, namespace in self._places(resources):
                group.create_task(self._watch(resource, namespace))

    def _places(self, resources: Sequence[Resource]) -> Iterator[tuple[Resource, str | None]]:
        """Yield each resource with each namespace in which to list it; None means the whole cluster.

        An operator that is limited to namespaces cannot read cluster-scoped resources.
        """
        for resource in resources:
            for namespace in self._namespaces:
                if resource.namespaced or namespace is None:
                    yield resource, namespace

    async def _refused(self, resource: Resource, namespace: str | None) -> str:
        try:
            await self._list(resource, namespace)
        except ForbiddenError as error:
            logger.error("no permission to list a kind", extra={"kind": resource.kind, "why": error.message})
            return resource.kind
        except NotFoundError:
            if not resource.if_unserved:
                raise
            logger.error(
                "the cluster does not serve a kind", extra={"kind": resource.kind, "why": resource.if_unserved}
            )
            return resource.kind
        return ""

    async def _list(self, resource: Resource, namespace: str | None) -> str:
        async with self._gate:
            keep = partial(cached_object, self._cache.scheme, resource.kind)
            listing = await self._api.list(resource, namespace=namespace, keep=keep)
            for change in self._cache.replace(resource, listing, namespace=namespace):
                self._on_change(change)
        self._listed[resource.kind, namespace] = listing.resource_version
        return listing.resource_version

    async def _watch(self, resource: Resource, namespace: str | None) -> None:
        # Start from the last list instead of listing again.
        version = self._listed.get((resource.kind, namespace))
        while True:
            try:
                version = version or await self._list(resource, namespace)
                stream = self._api.watch(resource, namespace=namespace, resource_version=version)
                async for event_type, body in stream:
                    version = body["metadata"]["resourceVersion"]
                    if event_type != "BOOKMARK":
                        self.event(resource.kind, event_type, body)
            except GoneError:
                version = None
                await asyncio.sleep(self._pause)
            except (ForbiddenError, NotFoundError):
                version = None
                await asyncio.sleep(_FORBIDDEN_PAUSES * self._pause)
            except ApiError as error:
                logger.warning("watch lost", extra={"kind": resource.kind, "error": str(error) or repr(error)})
                version = None
                await asyncio.sleep(self._pause)
            except CONNECTION_ERRORS as error:
                # A silent stream is no fault: a proxy may have forgotten it.
                level = logging.DEBUG if isinstance(error, TimeoutError) else logging.WARNING
                logger.log(level, "watch lost", extra={"kind": resource.kind, "error": str(error) or repr(error)})
                await asyncio.sleep(self._pause)
