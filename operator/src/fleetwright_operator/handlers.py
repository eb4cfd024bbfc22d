"""kopf brings events and nothing else: every handler hands the object on. No retries, no state, no API calls."""

from collections.abc import Sequence
from typing import Any

import kopf

from fleetwright_operator.cluster.feed import Feed
from fleetwright_operator.cluster.login import login
from fleetwright_operator.cluster.port import Resource


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


def kopf_settings(resources: Sequence[Resource]) -> kopf.OperatorSettings:
    """Watches only: no peering, no scanning of CRDs and namespaces, no Events, nothing written."""
    settings = kopf.OperatorSettings()
    settings.scanning.disabled = True
    settings.posting.enabled = False
    settings.watching.chunk_size = 500
    settings.watching.server_timeout = 300
    settings.watching.inactivity_timeout = 70
    settings.networking.request_timeout = 15
    settings.networking.connect_timeout = 5
    settings.queueing.worker_limit = 64
    for resource in resources:
        if resource.selector:
            place = (resource.group, resource.version, resource.plural)
            settings.watching.label_selectors[place] = resource.selector
    return settings
