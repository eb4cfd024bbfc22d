"""Forwards the events of kopf's watches to the cache. kopf's retries, state and API calls are not used."""

import asyncio
import logging
import os
from collections.abc import Sequence
from typing import Any

import kopf

from fleetwright_kube.informer import Informer
from fleetwright_kube.login import login
from fleetwright_kube.port import Resource
from fleetwright_operator.manager.cache_sync import CacheSync, kopf_resources
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)
_PAUSE_SECONDS = 2.0


async def watch_with_kopf(cache_sync: CacheSync, settings: Settings, forbidden: set[str]) -> None:
    """Run kopf's watches until SIGTERM.

    A watch that kopf gives up stops kopf; then all watches start again from a list.
    """
    # kopf identifies itself by the user name, and exits if the pod's uid has none.
    os.environ.setdefault("LOGNAME", "fleetwright")
    while True:
        try:
            await _run_kopf(cache_sync, settings, forbidden)
            return
        except Exception as error:  # kopf's own errors have no public names
            logger.warning("watches failed", extra={"why": str(error) or repr(error)})
            await asyncio.sleep(_PAUSE_SECONDS)


async def _run_kopf(cache_sync: CacheSync, settings: Settings, forbidden: set[str]) -> None:
    watched = kopf_resources(forbidden)
    registry = kopf.OperatorRegistry()
    register(registry, cache_sync.informer, watched)
    bridge = asyncio.create_task(cache_sync.bridge(watched))
    await asyncio.sleep(0)  # kopf cancels tasks that start after it
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(request_seconds=settings.request_seconds),
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
        )
    finally:
        bridge.cancel()
        asyncio.get_running_loop().set_exception_handler(_ignore_async_generators)


def _ignore_async_generators(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Ignore errors of async generators: kopf leaves its watches open at exit, and closing them raises."""
    if "asyncgen" not in context:
        loop.default_exception_handler(context)


def register(registry: kopf.OperatorRegistry, informer: Informer, resources: Sequence[Resource]) -> None:
    _on_login(registry)
    for resource in resources:
        _on_event(registry, informer, resource)


def _on_login(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()


def _on_event(registry: kopf.OperatorRegistry, informer: Informer, resource: Resource) -> None:
    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def hand_on(event: Any, **_: Any) -> None:
        informer.event(resource.kind, event["type"], dict(event["object"]))


class _NoDiffs(kopf.DiffBaseStorage):
    """A storage without diffs, because no handler here uses them.

    kopf copies every object of every event to compute a diff, which takes a fifth of all CPU time.
    """

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return


class _NoProgress(kopf.ProgressStorage):
    """A storage without progress, because no handler here has any."""

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return

    def purge(self, **_: Any) -> None:
        return

    def touch(self, **_: Any) -> None:
        return

    def clear(self, *, essence: Any) -> Any:
        return essence


def kopf_settings(*, request_seconds: float) -> kopf.OperatorSettings:
    """Return settings that limit kopf to watches.

    That means no peering, no scanning of CRDs and namespaces, no Events and no writes.
    """
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.progress_storage = _NoProgress()
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    # The pause before a new list after an expired version. kopf's default of 0.1 seconds floods the API server.
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = request_seconds
    settings.networking.connect_timeout = 5
    # kopf keeps a worker for each object until it was idle for this long. The handlers return at once, so a limit on
    # workers or the default of five seconds would only delay the events of other objects.
    settings.queueing.idle_timeout = 0.05
    return settings
