"""An operator behind its proxy, and the namespaces that are its own."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.faults.cases import Findings
from e2e.faults.plan import Case, Plan, Point
from e2e.faults.proxy import FaultProxy
from e2e.faults.reference import settled
from e2e.plane.client import Client
from e2e.plane.installation import ACCOUNT, Installation
from e2e.plane.mirror import Mirror
from e2e.plane.process import OperatorProcess

_HOLD_SECONDS = 8.0
_STILL_SECONDS = 2.5
"""Longer than the operator pauses by itself here: who writes nothing for so long waits for what is held, or others."""
_IDLE_SECONDS = 5.0
"""Who writes nothing for so long, and to whom nothing is left to do, comes to nothing more that is due."""
_BUSY_SECONDS = 60.0
"""For a machine on which nothing moves for a while, though there is work to do."""


@dataclass(frozen=True)
class Place:
    """Where the API server is, how an administrator gets in, and a folder for logs."""

    server: str
    token: str
    ca: Path
    folder: Path


@dataclass
class Scene:
    """What one process of a sweep works with, and what it finds."""

    place: Place
    client: Client
    mirror: Mirror
    plan: Plan = field(default_factory=Plan)
    findings: Findings = field(default_factory=Findings)


@contextlib.asynccontextmanager
async def scene_of(place: Place, name: str) -> AsyncIterator[Scene]:
    """Of the namespaces that are called `<name>-case-…`."""
    async with (
        Client(place.server, place.token, place.ca, connections=32) as client,
        Mirror(client, prefix=f"{name}-case-") as mirror,
    ):
        yield Scene(place, client, mirror)


class Crew:
    """Enter it, and the operator leads. One that ends by itself is started again, as a kubelet would."""

    def __init__(self, scene: Scene, name: str, installation: Installation, environment: Mapping[str, str]) -> None:
        self._scene = scene
        self._installation = installation
        self._prefix = f"{name}-case-"
        self.proxy = FaultProxy(scene.place.server, scene.place.ca, scene.plan, sees=self._owns)
        self._folder = scene.place.folder / name
        self._environment = environment
        self._wanted = asyncio.Event()

    async def __aenter__(self) -> "Crew":
        await self.proxy.__aenter__()
        self.process = OperatorProcess(
            self._folder, self._installation, server=self.proxy.url, environment=self._environment
        )
        await self.process.started()
        self._wanted.set()
        self._watching = asyncio.create_task(self._restart())
        return self

    async def __aexit__(self, *about: object) -> None:
        self._watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await self._watching
        self.process.kill_if_alive()
        found = [*self.process.complaints(), *self.proxy.refused]
        self._scene.findings.complaints += [f"{self._prefix}: {line}" for line in found]
        await self.proxy.__aexit__(None, None, None)

    async def kill_where_due(self, cases: Mapping[str, Iterable[Case]]) -> int:
        """Kills when the operator stands at each write that is due, by namespace, or can go no further.

        A write that waits for another one, which is held, comes after the kill, and so does the second kill of one
        write: then there is another. Returns how often it was killed.
        """
        plan, killed = self._scene.plan, 0
        awaited = {(space, case.point) for space, own in cases.items() for case in own}
        while awaited:
            await self._arrived(cases, awaited)
            if not self.proxy.held:
                break
            awaited = await self._replace_killed(cases)
            killed += 1
        # What strikes from now on would be held, and nobody killed.
        for space in cases:
            plan.withdraw(space)
        if self.proxy.held:
            await self._replace_killed(cases)
            killed += 1
        return killed

    def _due(self, spaces: Iterable[str]) -> set[tuple[str, Point]]:
        return {(space, point) for space in spaces for point in self._scene.plan.due(space)}

    async def _arrived(self, spaces: Iterable[str], awaited: set[tuple[str, Point]]) -> None:
        """Returns when the operator stands at all that it can come to, or stands still, or has had its time."""
        plan, clock = self._scene.plan, asyncio.get_running_loop().time
        before, since, began = -1, clock(), clock()
        while awaited & self._due(spaces):
            if (writes := sum(map(plan.total_writes, spaces))) != before:
                before, since = writes, clock()
            still, waited = clock() - since, clock() - began
            if self.proxy.held:
                if still > _STILL_SECONDS or waited > _HOLD_SECONDS:
                    return
            elif (still > _IDLE_SECONDS and self._rest(spaces)) or waited > _BUSY_SECONDS:
                return
            await asyncio.sleep(0.05)

    def _rest(self, spaces: Iterable[str]) -> bool:
        return not any(settled(self._scene.mirror.objects(space).values()) for space in spaces)

    async def _replace_killed(self, spaces: Iterable[str]) -> set[tuple[str, Point]]:
        """What was still due when it died."""
        self._wanted.clear()
        await self.process.stop(signal.SIGKILL)
        self.proxy.held.clear()
        due = self._due(spaces)
        await self._start_again()
        self._wanted.set()
        return due

    async def _restart(self) -> None:
        while True:
            await asyncio.sleep(1)
            if self._wanted.is_set() and self.process.exit_code is not None:
                self._scene.findings.restarts += 1
                await self._start_again()

    async def _start_again(self) -> None:
        """Lets the Lease of the dead go as time would."""
        vacant = {"spec": {"holderIdentity": ""}}
        await self._scene.client.merge("Lease", self._installation.namespace, ACCOUNT, vacant)
        await self.process.started()

    def _owns(self, namespace: str) -> bool:
        return namespace.startswith(self._prefix) or namespace == self._installation.namespace
