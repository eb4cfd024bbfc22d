"""The HTTP client for other agents: it connects only to their hosts, and bounds what it reads."""

from collections.abc import Iterable

import httpx

from fleetwright_a2a.outbound.bounded_responses import BoundedTransport
from fleetwright_a2a.outbound.pinned_http import PinnedTransport
from fleetwright_a2a.outbound.policy.addresses import Network
from fleetwright_a2a.outbound.policy.egress_policy import EgressPolicy

_MOST_OF_CARD = 1024 * 1024
_MOST_OF_STREAM = 32 * 1024 * 1024
_MOST_OF_EVENT = 4 * 1024 * 1024
"""The maximum size of an event in bytes. Parsing an event blocks the event loop."""
_CONNECT_SECONDS = 30.0
_READ_SECONDS = 300.0


def peer_client(
    urls: Iterable[str], *, denied: tuple[Network, ...] = (), auth: httpx.Auth | None = None
) -> httpx.AsyncClient:
    """Return a client that follows no redirect and connects only to the hosts of these URLs."""
    timeout = httpx.Timeout(_READ_SECONDS, connect=_CONNECT_SECONDS)
    pinned = PinnedTransport(EgressPolicy.declared(urls, denied=denied))
    transport = BoundedTransport(pinned, document=_MOST_OF_CARD, stream=_MOST_OF_STREAM, answered_event=_MOST_OF_EVENT)
    return httpx.AsyncClient(transport=transport, timeout=timeout, follow_redirects=False, trust_env=False, auth=auth)
