"""Forwards the events of kopf's watches to the cache. kopf's retries, state and API calls are not used.

kopf runs in a thread with an event loop of its own, as its documentation on embedding recommends. When kopf stops, it
cancels every other task of its event loop.
"""

import asyncio
import contextlib
import logging
import threading
from collections.abc import Callable, Sequence
from typing import Any, Final

import kopf

from fleetwright_kube.login import login
from fleetwright_kube.port import Object, Resource
from fleetwright_operator.manager.cache_sync import CacheSync, kopf_resources
from fleetwright_operator.settings import Settings

logger = logging.getLogger(__name__)
_PAUSE_SECONDS: Final = 2.0
_IDENTITY: Final = "fleetwright"
"""kopf's identity for peering, which is off. Without it, kopf looks up the user's name and fails if there is none."""
OnEvent = Callable[[str, str, Object], None]
"""Called with the kind in the cache, the type of the event, and the object."""


async def watch_with_kopf(cache_sync: CacheSync, settings: Settings, forbidden: set[str]) -> None:
    """Run kopf's watches until cancelled. If kopf gives up a watch, all watches start again from a list."""
    watched = kopf_resources(forbidden)
    loop = asyncio.get_running_loop()

    def on_event(kind: str, event: str, body: Object) -> None:
        loop.call_soon_threadsafe(cache_sync.informer.event, kind, event, body)

    while True:
        bridge = asyncio.create_task(cache_sync.bridge(watched))
        try:
            await _run_in_thread(settings, watched, on_event)
            logger.warning("watches ended")
        except Exception as error:  # kopf's own errors have no public names
            logger.warning("watches failed", extra={"why": str(error) or repr(error)})
        finally:
            bridge.cancel()
        await asyncio.sleep(_PAUSE_SECONDS)


async def _run_in_thread(settings: Settings, watched: Sequence[Resource], on_event: OnEvent) -> None:
    """Run kopf in a thread until it fails. If this task is cancelled, return when kopf has stopped."""
    stop = threading.Event()
    running = asyncio.ensure_future(asyncio.to_thread(asyncio.run, _kopf(settings, watched, on_event, stop)))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        stop.set()
        while not running.done():  # a second cancellation must not leave the thread behind
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait({running})
        raise


async def _kopf(settings: Settings, watched: Sequence[Resource], on_event: OnEvent, stop: threading.Event) -> None:
    asyncio.get_running_loop().set_exception_handler(_log_while_running)
    registry = kopf.OperatorRegistry()
    register(registry, watched, on_event)
    try:
        await kopf.operator(
            registry=registry,
            settings=kopf_settings(request_seconds=settings.request_seconds),
            identity=_IDENTITY,  # type: ignore[arg-type]  # kopf 1.45 does not export the type of its own argument
            standalone=True,
            clusterwide=not settings.namespaces,
            namespaces=settings.namespaces,
            stop_flag=stop,
        )
    finally:
        stop.set()  # kopf waits for the flag in a thread, which asyncio joins at the end


def _log_while_running(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log errors of the event loop, except those that occur while kopf stops.

    kopf 1.45 leaves its watches open when it stops, and closing them raises. If several watches fail, it reports one
    error and drops the others, which asyncio would log when their tasks are collected as garbage.
    """
    if "asyncgen" not in context and not loop.is_closed():
        loop.default_exception_handler(context)


def register(registry: kopf.OperatorRegistry, resources: Sequence[Resource], on_event: OnEvent) -> None:
    _register_login(registry)
    for resource in resources:
        _register_kind(registry, resource, on_event)


def _register_login(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()


def _register_kind(registry: kopf.OperatorRegistry, resource: Resource, on_event: OnEvent) -> None:
    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def hand_on(event: Any, **_: Any) -> None:
        on_event(resource.kind, event["type"], dict(event["object"]))


class _NoDiffs(kopf.DiffBaseStorage):
    """A storage without diffs, because no handler here uses them.

    kopf 1.45 copies every object of every event to compute a diff, which takes a fifth of all CPU time.
    """

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return


class _NoProgress(kopf.ProgressStorage):
    """A storage without progress, because event handlers have none. kopf 1.45 would search every object for it."""

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
    settings.watching.inactivity_timeout = 150  # Bookmarks arrive about once a minute.
    # The pause before a new list after an expired version. kopf 1.45's default of 0.1 seconds floods the API server.
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = request_seconds
    settings.networking.connect_timeout = 5
    # kopf 1.45 keeps a worker for each object until it was idle for this long. The handlers return at once, so a limit
    # on workers or the default of five seconds would only delay the events of other objects.
    settings.queueing.idle_timeout = 0.05
    return settings
