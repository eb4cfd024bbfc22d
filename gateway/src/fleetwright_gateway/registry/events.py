"""The stream of changes of the agents that a caller may call, as server-sent events.

A stream compares what the caller sees with what it saw before. So a withdrawn permission removes an agent in the same
way as a deletion. Changes are collected for a short time, because a rollout changes an Agent several times a second.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from fleetwright_api import names
from fleetwright_api.call_authorization import Identity
from fleetwright_gateway.cluster.fleet import Fleet
from fleetwright_gateway.cluster.resources import CARD, NAMESPACE
from fleetwright_gateway.http.admission import Refused
from fleetwright_gateway.http.protected import caller_of
from fleetwright_gateway.identity.principals import Principal
from fleetwright_gateway.registry.search_index import Document
from fleetwright_gateway.registry.v1 import Directory
from fleetwright_kube.cache import Change

_COLLECTED_SECONDS: Final = 0.2
_QUIET_SECONDS: Final = 15.0
_STREAM_SECONDS: Final = 300.0
"""The longest life of a stream. The client then connects again with a valid token."""
_MOST_STREAMS: Final = 200
_MOST_OF_A_CALLER: Final = 5
_KINDS: Final = frozenset({names.AGENT, CARD, NAMESPACE})
_BY_PHASE: Final = {"Running": "online", "Degraded": "degraded", "Asleep": "asleep"}


@dataclass(frozen=True, slots=True)
class Seen:
    phase: str
    card: Mapping[str, Any]


View = Mapping[Identity, Seen]


class EventStreams:
    def __init__(self, directory: Directory, fleet: Fleet) -> None:
        self._directory = directory
        self._fleet = fleet
        self._open: Counter[str] = Counter()

    async def open(self, caller: Principal) -> AsyncIterator[str]:
        """Return the events of a caller. Raises: Refused: too many streams are open."""
        if self._open.total() >= _MOST_STREAMS or self._open[caller.subject] >= _MOST_OF_A_CALLER:
            sentence = f"Too many event streams are open. A caller may open {_MOST_OF_A_CALLER}."
            raise Refused(429, sentence, {"Retry-After": "10"})
        view = await self._view(caller)
        return self._events(caller, view)

    async def _events(self, caller: Principal, view: View) -> AsyncIterator[str]:
        changed = asyncio.Event()

        def notice(change: Change) -> None:
            if change.entry.kind in _KINDS:
                changed.set()

        end = self._fleet.observe(notice)
        self._open[caller.subject] += 1
        try:
            yield ": open\n\n"
            async with asyncio.timeout(_STREAM_SECONDS):
                while True:
                    await _wait(changed)
                    changed.clear()
                    current = await self._view(caller)
                    lines = [_event(kind, place, current.get(place)) for kind, place in differences(view, current)]
                    view = current
                    yield "".join(lines) or ": keep-alive\n\n"
        except (TimeoutError, Refused):
            return
        finally:
            end()
            self._open[caller.subject] -= 1

    async def _view(self, caller: Principal) -> View:
        documents: Sequence[Document] = await self._directory.list(caller)
        return {(each.view.namespace, each.view.name): Seen(each.phase, each.card) for each in documents}


def differences(before: View, after: View) -> list[tuple[str, Identity]]:
    """Return the events between two views, in the order of the agents' names. Pure."""
    found: list[tuple[str, Identity]] = []
    for place in sorted(before.keys() | after.keys()):
        old, new = before.get(place), after.get(place)
        if new is None:
            found.append(("removed", place))
        elif old is None:
            found.append((_BY_PHASE.get(new.phase, "offline"), place))
        else:
            if old.phase != new.phase:
                kind = "awake" if old.phase == "Asleep" else _BY_PHASE.get(new.phase, "offline")
                found.append((kind, place))
            if old.card != new.card:
                found.append(("card-changed", place))
    return found


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
