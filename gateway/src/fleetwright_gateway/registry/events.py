"""The stream of changes of the agents that a caller may call, as server-sent events.

A stream compares what the caller sees with what it saw before. So a withdrawn permission removes an agent in the same
way as a deletion. Changes are collected for a short time, because a rollout changes an Agent several times a second.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Final

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from fleetwright_api.call_authorization import Identity
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.errors import refuse_unknown_parameters
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

    @asynccontextmanager
    async def open(self, caller: Principal) -> AsyncIterator[AsyncIterator[str]]:
        """Return the events of a caller, which count as an open stream. Raises: Refused: too many streams are open."""
        with self._counted(caller.subject):
            view = LiveView(caller, self._listing)
            await view.refresh()
            yield self._events(view)

    @contextmanager
    def _counted(self, subject: str) -> Iterator[None]:
        """Count a stream before its first await, so that concurrent requests cannot exceed the limit."""
        if self._open.total() >= _MOST_STREAMS or self._open[subject] >= _MOST_OF_A_CALLER:
            sentence = f"Too many event streams are open. A caller may open {_MOST_OF_A_CALLER}."
            raise Refused(429, sentence, {"Retry-After": "10"})
        self._open[subject] += 1
        try:
            yield
        finally:
            self._open[subject] -= 1
            if not self._open[subject]:
                del self._open[subject]

    async def _events(self, view: LiveView) -> AsyncIterator[str]:
        changed = asyncio.Event()

        def notice(change: Change) -> None:
            if view.note(change):
                changed.set()

        end = self._fleet.observe(notice)
        view.distrust()
        try:
            yield ": open\n\n"
            last_sent = checked = _now()
            async with asyncio.timeout(_STREAM_SECONDS):
                while True:
                    await _wait(changed, until=min(last_sent, checked) + _QUIET_SECONDS)
                    changed.clear()
                    events = await view.refresh()
                    if _now() - checked >= _QUIET_SECONDS:
                        events += await view.check_permissions()
                        checked = _now()
                    text = "".join(_event(kind, place, view.seen.get(place)) for kind, place in events)
                    # A change of a hidden agent must not be noticed, so a comment is sent only when it is due.
                    if text or _now() - last_sent >= _QUIET_SECONDS:
                        last_sent = _now()
                        yield text or ": keep-alive\n\n"
        except (TimeoutError, Refused):
            return
        finally:
            end()


class EventResponse(Response):
    """The response with the events of a caller. The stream counts as open until the response has ended."""

    media_type = "text/event-stream"

    def __init__(self, streams: EventStreams, caller: Principal) -> None:
        super().__init__()
        self._streams = streams
        self._caller = caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the events. Raises: Refused: too many streams are open."""
        async with self._streams.open(self._caller) as events:
            headers = {"Cache-Control": "no-store"}
            await StreamingResponse(events, media_type=self.media_type, headers=headers)(scope, receive, send)


def _now() -> float:
    return asyncio.get_running_loop().time()


async def _wait(changed: asyncio.Event, *, until: float) -> None:
    """Wait for changes, or for the time at which the stream has to send something."""
    try:
        async with asyncio.timeout(until - _now()):
            await changed.wait()
    except TimeoutError:
        return
    await asyncio.sleep(_COLLECTED_SECONDS)


def _event(kind: str, place: Identity, seen: Seen | None) -> str:
    data = {"namespace": place[0], "name": place[1], **({"phase": seen.phase} if seen else {})}
    return f"event: {kind}\ndata: {json.dumps(data)}\n\n"


def event_routes(streams: EventStreams) -> APIRouter:
    router = APIRouter(prefix="/v1", tags=["registry"], dependencies=[Depends(refuse_unknown_parameters)])

    @router.get("/events", summary="Changes of the agents that the caller may call (server-sent events)")
    async def events(request: Request) -> Any:
        return EventResponse(streams, caller_of(request.scope).principal)

    return router
