"""Sends Events in the background, at a limited rate. Reconciles do not wait for Events, and Events may be lost."""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable

from fleetwright_kube.errors import ConflictError, NotFoundError
from fleetwright_kube.informer import TRANSIENT_ERRORS
from fleetwright_kube.port import EVENTS, Api, Object

logger = logging.getLogger(__name__)
_WAITING = 1000
_REMEMBERED = 4096
_PER_SECOND = 20.0


class EventRecorder:
    """Sends Events. Equal Events have the same name: the first is created, and each later one increases its count."""

    def __init__(
        self, api: Api, *, on_write: Callable[[str, str], None], pause: float = 1 / _PER_SECOND, waiting: int = _WAITING
    ) -> None:
        """Args: `on_write` is called after each write, with verb and kind. `pause` is the time between two Events."""
        self._api = api
        self._on_write = on_write
        self._pause = pause
        self._queue: asyncio.Queue[Object] = asyncio.Queue(maxsize=waiting)
        self._counts: OrderedDict[tuple[str, str], int] = OrderedDict()

    def record(self, event: Object) -> None:
        """Queue an Event. If the queue is full, the Event is dropped; its message is still in a condition."""
        try:
            self._queue.put_nowait(event)
        except asyncio.QueueFull:
            logger.warning("event dropped", extra={"object": event["involvedObject"]["name"]})

    async def run(self) -> None:
        """Send Events until cancelled."""
        while True:
            event = await self._queue.get()
            try:
                await self._send(event)
            except TRANSIENT_ERRORS as error:
                about = event["involvedObject"]
                why = str(error) or repr(error)
                where = {"kind": about["kind"], "namespace": about["namespace"], "object": about["name"]}
                logger.info("event not written", extra={**where, "why": why})
            await asyncio.sleep(self._pause)

    async def _send(self, event: Object) -> None:
        place = (event["metadata"]["namespace"], event["metadata"]["name"])
        if place not in self._counts:
            try:
                await self._create(event, place)
            except ConflictError:
                pass  # An earlier process has created the Event.
            else:
                return
        try:
            counted = self._counts.get(place) or await self._counted(place)
            await self._count(event, place, counted + 1)
        except NotFoundError:  # The API server deletes old Events, and the same Event may occur again.
            await self._create(event, place)

    async def _create(self, event: Object, place: tuple[str, str]) -> None:
        await self._api.create(EVENTS, event)
        self._on_write("create", "Event")
        self._remember(place, 1)

    async def _counted(self, place: tuple[str, str]) -> int:
        """Return the count of an existing Event. An empty patch returns the Event without a permission to read it."""
        body = await self._api.merge(EVENTS, *place, {})
        return int(body.get("count") or 1)

    async def _count(self, event: Object, place: tuple[str, str], count: int) -> None:
        news = {key: event[key] for key in ("message", "lastTimestamp")}
        await self._api.merge(EVENTS, *place, {**news, "count": count})
        self._on_write("count", "Event")
        self._remember(place, count)

    def _remember(self, place: tuple[str, str], count: int) -> None:
        self._counts[place] = count
        self._counts.move_to_end(place)
        while len(self._counts) > _REMEMBERED:
            self._counts.popitem(last=False)
