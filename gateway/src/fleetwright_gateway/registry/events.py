"""The stream of changes of the agents that a caller may call, as server-sent events.

A stream compares what the caller sees with what it saw before. So a withdrawn permission removes an agent in the same
way as a deletion. Changes are collected for a short time, because a rollout changes an Agent several times a second.
"""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from fleetwright_api.call_authorization import Identity
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.protected import caller_of
from fleetwright_gateway.identity.principals import Principal
from fleetwright_gateway.registry.live_view import AgentListing, LiveView, Seen
from fleetwright_kube.cache import Change

_COLLECTED_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 15.0
_STREAM_SECONDS: Final = 300.0
"""The longest life of a stream. The client then connects again with a valid token."""
_MOST_STREAMS: Final = 200
_MOST_OF_A_CALLER: Final = 5


class EventStreams:
    def __init__(self, listing: AgentListing, fleet: Fleet) -> None:
        self._listing = listing
        self._fleet = fleet
        self._open: Counter[str] = Counter()

    async def open(self, caller: Principal) -> AsyncIterator[str]:
        """Return the events of a caller. Raises: Refused: too many streams are open."""
        if self._open.total() >= _MOST_STREAMS or self._open[caller.subject] >= _MOST_OF_A_CALLER:
            sentence = f"Too many event streams are open. A caller may open {_MOST_OF_A_CALLER}."
            raise Refused(429, sentence, {"Retry-After": "10"})
        view = LiveView(caller, self._listing)
        await view.refresh()
        return self._events(caller, view)

    async def _events(self, caller: Principal, view: LiveView) -> AsyncIterator[str]:
        changed = asyncio.Event()

        def notice(change: Change) -> None:
            if view.note(change):
                changed.set()

        end = self._fleet.observe(notice)
        view.distrust()
        self._open[caller.subject] += 1
        try:
            yield ": open\n\n"
            checked = time.monotonic()
            async with asyncio.timeout(_STREAM_SECONDS):
                while True:
                    await _wait(changed)
                    changed.clear()
                    events = await view.refresh()
                    if time.monotonic() - checked >= _QUIET_SECONDS:
                        events += await view.check_permissions()
                        checked = time.monotonic()
                    yield (
                        "".join(_event(kind, place, view.seen.get(place)) for kind, place in events)
                        or ": keep-alive\n\n"
                    )
        except (TimeoutError, Refused):
            return
        finally:
            end()
            self._open[caller.subject] -= 1


async def _wait(changed: asyncio.Event) -> None:
    """Wait for changes, or for the time at which permissions are checked again."""
    try:
        async with asyncio.timeout(_QUIET_SECONDS):
            await changed.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_COLLECTED_SECONDS)


def _event(kind: str, place: Identity, seen: Seen | None) -> str:
    data = {"namespace": place[0], "name": place[1], **({"phase": seen.phase} if seen else {})}
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def event_routes(streams: EventStreams) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["registry"])

    @router.get("/events", summary="Changes of the agents that the caller may call (server-sent events)")
    async def events(request: Request) -> Any:
        found = await streams.open(caller_of(request.scope).principal)
        return StreamingResponse(found, media_type="text/event-stream", headers={"Cache-Control": "no-store"})

    return router
