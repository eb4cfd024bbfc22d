"""The context of all walks: namespaces, fresh objects for comparison, and findings."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from e2e.control_plane.client import Client, Refusal, path_of
from e2e.control_plane.installation import make_namespace
from e2e.control_plane.watch_cache import WatchCache
from e2e.walk.bases import NAMES, fixtures
from e2e.walk.edits import Edit

Spec = Mapping[str, Any]


@dataclass
class WalkContext:
    client: Client
    cache: WatchCache
    edits: dict[tuple[str, int], list[Edit]] = field(default_factory=dict)
    """By kind and base: the edits that the API server accepts there."""
    walked: int = 0
    refused: int = 0
    held: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    uncovered: list[str] = field(default_factory=list)
    """Properties for which the API server accepted no value."""
    spaces: int = 0
    _fresh: dict[tuple[str, str], asyncio.Task[str]] = field(default_factory=dict)

    async def space(self, *, without: str = "") -> str:
        """Create a namespace with the objects that specs refer to, except the object of the kind `without`."""
        self.spaces += 1
        name = f"walked-space-{self.spaces:05}"
        await make_namespace(self.client, name)
        for body in fixtures(name, without=without):
            await self.client.apply(body)
        return name

    async def fresh(self, kind: str, spec: Spec) -> str:
        """Return the namespace of an object that never had another spec. Walks that reach the same spec share it."""
        key = (kind, json.dumps(spec, sort_keys=True))
        if key not in self._fresh:
            self._fresh[key] = asyncio.create_task(self._made(kind, spec))
        return await self._fresh[key]

    async def put(self, kind: str, space: str, spec: Spec) -> None:
        """Replace the whole spec. A server-side apply would keep an empty list that an earlier apply had created."""
        name, client = NAMES[kind], self.client
        body: dict[str, Any] = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "spec": spec}
        while True:
            found = await client.find(kind, space, name)
            body["metadata"] = found["metadata"] if found else {"name": name, "namespace": space}
            try:
                if found:
                    await client.request("PUT", path_of(kind, space, name), body)
                else:
                    await client.request("POST", path_of(kind, space), body)
                return
            except Refusal as refusal:
                if refusal.status != 409:  # the operator has written its finalizer or the status meanwhile
                    raise

    async def _made(self, kind: str, spec: Spec) -> str:
        space = await self.space(without=kind)
        await self.put(kind, space, spec)
        return space
