"""An operator behind a fault proxy, and the namespaces that only this operator serves."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from e2e.control_plane.client import Client
from e2e.control_plane.installation import ACCOUNT, Installation
from e2e.control_plane.process import OperatorProcess
from e2e.control_plane.watch_cache import WatchCache
from e2e.faults.cases import Findings
from e2e.faults.open_cases import OpenCases
from e2e.faults.plan import Case, Plan, Point
from e2e.faults.proxy import FaultProxy
from e2e.faults.settling import settled
from tests.support.machine import machine_factor

# A slow machine multiplies these times by its factor, because its operator needs longer between two writes.
_HOLD_SECONDS = 8.0
"""The longest time for which a write is blocked while other writes of the operator continue."""
_STILL_SECONDS = 2.5
"""Longer than any pause of the operator here.

An operator without writes for this time waits for blocked or other writes.
"""
_IDLE_SECONDS = 5.0
"""An operator that is idle for this long, with an empty work queue, will not reach the remaining cases."""
_HANG_UP_SECONDS = 10.0
"""The time in which the connections of a killed operator end."""
_SHOWN_LOG = 6000
_BUSY_SECONDS = 60.0
"""The time limit for a busy machine, on which nothing may happen for a while although there is work to do."""
_MOST_WRITES = 300
"""The number of writes of one kind to one object, above which the operator is in a loop.

Keys are replaced by time, so a slow machine needs more writes: 51 in ten minutes, and 115 in fifteen. A loop writes
several times a second.
"""


@dataclass(frozen=True)
class Place:
    """The address of the API server, an administrator's credentials, and a folder for logs."""

    server: str
    token: str
    ca: Path
    folder: Path


@dataclass
class Scene:
    """The context of one process of a sweep, and its findings."""

    place: Place
    client: Client
    cache: WatchCache
    open_cases: OpenCases
    plan: Plan = field(default_factory=Plan)
    findings: Findings = field(default_factory=Findings)


@contextlib.asynccontextmanager
async def scene_of(place: Place, name: str) -> AsyncIterator[Scene]:
    """Open the context for the namespaces named `<name>-case-…`."""
    async with (
        Client(place.server, place.token, place.ca, connections=32) as client,
        WatchCache(client, prefix=f"{name}-case-") as watch_cache,
    ):
        yield Scene(place, client, watch_cache, OpenCases(place.folder, name))


class OperatorGroup:
    """A context manager with a running operator that is the leader.

    It restarts an operator that exits, as a kubelet would.
    """

    def __init__(self, scene: Scene, name: str, installation: Installation, environment: Mapping[str, str]) -> None:
        self._scene = scene
        self._installation = installation
        self._prefix = f"{name}-case-"
        self.proxy = FaultProxy(scene.place.server, scene.place.ca, scene.plan, sees=self._owns)
        self._folder = scene.place.folder / name
        self._environment = environment
        self._restarting = asyncio.Lock()

    async def __aenter__(self) -> "OperatorGroup":
        await self.proxy.__aenter__()
        self.process = OperatorProcess(
            self._folder, self._installation, server=self.proxy.url, environment=self._environment
        )
        await self.process.started()
        self._watching = asyncio.create_task(self._restart())
        return self

    async def __aexit__(self, *about: object) -> None:
        self._watching.cancel()
        [ended] = await asyncio.gather(self._watching, return_exceptions=True)
        self.process.kill_if_alive()
        found = [*self.process.complaints(), *self.proxy.refused]
        found += self.proxy.find_repeated_writes(_MOST_WRITES)
        found += [f"was not started again: {ended}"] if isinstance(ended, Exception) else []
        findings = self._scene.findings
        if findings.complaints or any(verdict.problem for verdict in findings.verdicts):
            found.append(f"the end of the operator's log:\n{self.process.log.read_text()[-_SHOWN_LOG:]}")
        findings.complaints += [f"{self._prefix}: {line}" for line in found]
        await self.proxy.__aexit__(None, None, None)

    async def kill_where_due(self, cases: Mapping[str, Iterable[Case]]) -> int:
        """Kill the operator when it is blocked at each due write of these namespaces, or makes no more progress.

        Some writes come only after the kill: a write that waits for a blocked write, and a write with a second kill. In
        these cases the operator is killed again. Return the number of kills.
        """
        plan, spaces, killed = self._scene.plan, cases.keys(), 0
        awaited = {(space, case.point) for space, own in cases.items() for case in own}
        while awaited and await self._stands(spaces, awaited):
            awaited = await self._killed(spaces)
            killed += 1
        for space in spaces:
            plan.withdraw(space)
        # Writes that a fault has met by then are blocked, so the operator must still be killed for them.
        if await self._stands(spaces, set()):
            await self._killed(spaces)
            killed += 1
        return killed

    def _due(self, spaces: Collection[str]) -> set[tuple[str, Point]]:
        return {(space, point) for space in spaces for point in self._scene.plan.due(space)}

    async def _stands(self, spaces: Collection[str], awaited: set[tuple[str, Point]]) -> bool:
        """Wait until the operator is blocked at all points or makes no progress. Return True if it is blocked."""
        plan, clock = self._scene.plan, asyncio.get_running_loop().time
        before, since, began, alone = -1, clock(), clock(), clock()
        while self.proxy.arriving or awaited & self._due(spaces):
            now, writes = clock(), sum(map(plan.total_writes, spaces))
            if writes != before:
                before, since = writes, now
            if not self.proxy.held:
                alone = now
            if not self.proxy.arriving and self._comes_no_further(
                spaces, still=now - since, standing=now - alone, waited=now - began
            ):
                break
            await asyncio.sleep(0.05)
        return bool(self.proxy.held)

    def _comes_no_further(self, spaces: Collection[str], *, still: float, standing: float, waited: float) -> bool:
        factor = machine_factor()
        if self.proxy.held:
            return still > _STILL_SECONDS * factor or standing > _HOLD_SECONDS * factor
        return waited > _BUSY_SECONDS * factor or (still > _IDLE_SECONDS * factor and self._rest(spaces))

    def _rest(self, spaces: Collection[str]) -> bool:
        return not any(settled(self._scene.cache.objects(space).values()) for space in spaces)

    async def _killed(self, spaces: Collection[str]) -> set[tuple[str, Point]]:
        """Kill the operator and start another. Return the points that were still due between the two."""
        async with self._restarting:
            held = set(self.proxy.held)
            await self.process.stop(signal.SIGKILL)
            # Each request ends with its connection. Requests that are blocked later belong to the next operator.
            if held:
                await asyncio.wait(held, timeout=_HANG_UP_SECONDS * machine_factor())
            due = self._due(spaces)
            await self._start_again()
            return due

    async def _restart(self) -> None:
        while True:
            await asyncio.sleep(1)
            async with self._restarting:
                if self.process.exit_code is not None:
                    self._scene.findings.restarts += 1
                    await self._start_again()

    async def _start_again(self) -> None:
        """Release the Lease of the killed operator, instead of waiting until it expires, and start an operator."""
        vacant = {"spec": {"holderIdentity": ""}}
        await self._scene.client.merge("Lease", self._installation.namespace, ACCOUNT, vacant)
        await self.process.started()

    def _owns(self, namespace: str) -> bool:
        return namespace.startswith(self._prefix) or namespace == self._installation.namespace
