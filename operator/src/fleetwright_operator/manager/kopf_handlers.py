"""kopf brings events and nothing else: every handler hands the object on. No retries, no state, no API calls."""

from collections.abc import Sequence
from typing import Any

import kopf

from fleetwright_operator.kube.informer import Feed
from fleetwright_operator.kube.login import login
from fleetwright_operator.kube.port import Resource


def register(registry: kopf.OperatorRegistry, feed: Feed, resources: Sequence[Resource]) -> None:
    _on_login(registry)
    for resource in resources:
        _on_event(registry, feed, resource)


def _on_login(registry: kopf.OperatorRegistry) -> None:
    @kopf.on.login(registry=registry)
    async def log_in(**_: Any) -> kopf.ConnectionInfo:
        return login()


def _on_event(registry: kopf.OperatorRegistry, feed: Feed, resource: Resource) -> None:
    @kopf.on.event(resource.group, resource.version, resource.plural, registry=registry)
    async def hand_on(event: Any, **_: Any) -> None:
        feed.event(resource.kind, event["type"], dict(event["object"]))


class _NoDiffs(kopf.DiffBaseStorage):
    """kopf copies every object of every event to see what changed, which nobody here asks: a fifth of all work."""

    def build(self, **_: Any) -> Any:
        return {}

    def fetch(self, **_: Any) -> None:
        return None

    def store(self, **_: Any) -> None:
        return


class _NoProgress(kopf.ProgressStorage):
    """Nor does any handler here have progress to keep."""

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
    """Watches only: no peering, no scanning of CRDs and namespaces, no Events, nothing written."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = _NoDiffs()
    settings.persistence.progress_storage = _NoProgress()
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    # Before a new list, when a version was too old: kopf's tenth of a second is a storm where that goes on.
    settings.watching.reconnect_backoff = 1.0
    settings.networking.request_timeout = request_seconds
    settings.networking.connect_timeout = 5
    # kopf keeps a worker for each object until nothing came for this long. A limit on them, or five seconds each, would
    # hold up the news of all others; what they do here takes no time.
    settings.queueing.idle_timeout = 0.05
    return settings
