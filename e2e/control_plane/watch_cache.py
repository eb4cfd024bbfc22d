"""A cache of all relevant objects of the cluster, by namespace, kept current by watches.

The kinds are those that the operator itself watches, so a new kind of child needs no change here.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

import aiohttp
from e2e.control_plane.client import Client, Object, Refusal
from tests.support.machine import ceiling

from fleetwright_operator.kinds.resources import WATCHED

Id = tuple[str, str]
_KINDS = tuple(resource.kind for resource in WATCHED)
"""The time limit in seconds for the API server to serve a new kind."""
Listener = Callable[[str, str, Object], None]


class WatchCache:
    def __init__(self, client: Client, *, kinds: Iterable[str] = _KINDS, prefix: str = "") -> None:
        """Args: `prefix` selects namespaces by the start of their name."""
        self._client = client
        self._kinds = tuple(kinds)
        self._prefix = prefix
        self._mark = f'"namespace":"{prefix}'.encode()
        self._objects: defaultdict[str, dict[Id, Object]] = defaultdict(dict)
        self._changed: defaultdict[str, asyncio.Event] = defaultdict(asyncio.Event)
        self._tasks: list[asyncio.Task[None]] = []
        self.listeners: list[Listener] = []
        """Called with (event type, kind, object)."""

    async def __aenter__(self) -> Self:
        for kind in self._kinds:
            version = await self._filled_first(kind)
            self._tasks.append(asyncio.create_task(self._follow(kind, version)))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def objects(self, namespace: str) -> dict[Id, Object]:
        """By (kind, name)."""
        return self._objects[namespace]

    def find(self, kind: str, namespace: str, name: str) -> Object | None:
        return self._objects[namespace].get((kind, name))

    async def until(self, namespace: str, holds: Callable[[], bool], *, seconds: float, pause: float = 0.1) -> bool:
        """Return True if the condition holds in time. It is evaluated after every change in the namespace."""
        deadline = asyncio.get_running_loop().time() + seconds
        while True:
            if holds():
                return True
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            changed = self._changed[namespace]
            changed.clear()
            try:
                async with asyncio.timeout(min(left, 2.0)):
                    await changed.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(pause)  # changes come in bursts, and evaluating the condition costs more than waiting

    async def _filled_first(self, kind: str) -> str:
        """List the kind. Retry, because the API server serves a new kind only shortly after its CRD is created."""
        deadline = asyncio.get_running_loop().time() + ceiling()
        while True:
            try:
                return await self._fill(kind)
            except Refusal as refusal:
                if refusal.status != 404 or asyncio.get_running_loop().time() > deadline:
                    raise
                await asyncio.sleep(0.1)

    async def _fill(self, kind: str) -> str:
        """Replace the cached objects of a kind by a complete list. Return the resource version of the list."""
        listing = await self._client.list(kind)
        items = [item for item in listing["items"] or () if self._is_seen(item)]
        listed = {(item["metadata"].get("namespace", ""), item["metadata"]["name"]) for item in items}
        known = [(space, id_, body) for space, held in self._objects.items() for id_, body in held.items()]
        for space, id_, body in known:
            if id_[0] == kind and (space, id_[1]) not in listed:
                self._take("DELETED", kind, body)
        for item in items:
            self._take("ADDED", kind, {"kind": kind, **item})
        return str(listing["metadata"]["resourceVersion"])

    async def _follow(self, kind: str, version: str) -> None:
        while True:
            try:
                async for event, body in self._client.watch(kind, since=version, sees=self._sees):
                    if event == "ERROR":
                        version = await self._fill(kind)
                        break
                    version = body["metadata"]["resourceVersion"]
                    self._take(event, kind, body)
            except (aiohttp.ClientError, TimeoutError, Refusal):
                await asyncio.sleep(0.2)

    def _is_seen(self, body: Object) -> bool:
        return str(body["metadata"].get("namespace", "")).startswith(self._prefix)

    def _sees(self, line: bytes) -> bool:
        return self._mark in line or line.startswith(b'{"type":"ERROR"')

    def _take(self, event: str, kind: str, body: Object) -> None:
        metadata = body["metadata"]
        namespace = metadata.get("namespace", "")
        if event == "DELETED":
            self._objects[namespace].pop((kind, metadata["name"]), None)
        else:
            self._objects[namespace][kind, metadata["name"]] = body
        self._changed[namespace].set()
        for listener in self.listeners:
            listener(event, kind, body)
