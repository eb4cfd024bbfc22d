"""The environment of the benchmark: a control plane without workload controllers, users, and operators.

Deployments create no pods here. The benchmark compares writes; pods would cost both sides the same and slow the machine
down.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from e2e.cluster.control_plane import ControlPlane
from e2e.control_plane.client import Client, path_of
from e2e.control_plane.installation import Installation, install_crds, install_release, make_namespace
from e2e.control_plane.process import OperatorProcess
from e2e.control_plane.watch_cache import WatchCache
from e2e.faults.flows import agent
from e2e.faults.plan import Plan
from e2e.faults.proxy import FaultProxy
from tests.bench.recording import NAME, SPACE, Recorder
from tests.support.machine import ceiling, machine_factor
from tests.support.waiting import within

CONTROLLERS = ("--controllers=namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller",)
OURS, BARE, FEW, ASLEEP = "bench-ours", "bench-bare", "bench-few", "bench-asleep"
CONNECTIONS = 32
LONGEST_SECONDS = 3600.0
"""A wait for thousands of Agents has failed after this time, multiplied by the factor of the machine."""
_IMAGE = Path(__file__).parent / "image"
_QUIET = {
    "PYTHONPATH": os.pathsep.join((str(_IMAGE), os.environ.get("PYTHONPATH", ""))),
    "FLEETWRIGHT_NAMESPACES": OURS,
    "FLEETWRIGHT_LOG_LEVEL": "WARNING",
    "FLEETWRIGHT_RESYNC_SECONDS": "3600",
}


class Stage:
    """A context in which the API holds an operator's rights, two namespaces, and a recording of one Agent's writes."""

    def __init__(self, plane: ControlPlane, folder: Path) -> None:
        self.plane = plane
        self.folder = folder
        self.recording = folder / "writes.json"
        self.writes_per_agent = 0
        self.gets_per_agent = 0
        self._stack = AsyncExitStack()
        self._operators: list[OperatorProcess] = []

    async def __aenter__(self) -> "Stage":
        client = Client(self.plane.server, self.plane.token, self.plane.ca, connections=CONNECTIONS)
        self.client = await self._stack.enter_async_context(client)
        await install_crds(self.client)
        self.installation: Installation = await install_release(self.client, "fleetwright-system", gateway=True)
        for space in (OURS, BARE, FEW, ASLEEP, SPACE):
            await make_namespace(self.client, space)
        self.cache = await self._stack.enter_async_context(WatchCache(self.client, kinds=("Agent", "Deployment")))
        await self._record()
        return self

    async def __aexit__(self, *about: object) -> None:
        for operator in self._operators:
            operator.kill_if_alive()
        await self._stack.aclose()

    def operator(self, name: str, **environment: str) -> OperatorProcess:
        """Start an operator. It ends with the stage at the latest."""
        process = OperatorProcess(
            self.folder / name, self.installation, server=self.plane.server, ca=self.plane.ca,
            environment={**_QUIET, **environment},
        )  # fmt: skip
        self._operators.append(process)
        return process

    async def create(
        self, names: Sequence[str], *, rate: float = 0.0, space: str = OURS, **spec: Any
    ) -> tuple[list[float], float]:
        """Create Agents and wait for all. Args: `spec` has more fields for each Agent.

        Return the seconds from creation to Programmed for each, and the total.
        """
        made: dict[str, float] = {}
        served: dict[str, float] = {}
        done = asyncio.Event()

        def hear(event: str, kind: str, body: Any) -> None:
            name = body["metadata"]["name"]
            if kind == "Agent" and name in wanted and name not in served and is_programmed(body):
                served[name] = time.monotonic()
                if len(served) == len(wanted):
                    done.set()

        wanted = set(names)
        self.cache.listeners.append(hear)
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(name: str) -> None:
            async with gate:
                await self.client.request("POST", path_of("Agent", space), agent(name, space, **spec))
                made[name] = time.monotonic()

        started = time.monotonic()
        tasks = []
        for place, name in enumerate(names):
            if rate:
                await asyncio.sleep(max(0.0, started + place / rate - time.monotonic()))
            tasks.append(asyncio.create_task(one(name)))
        await asyncio.gather(*tasks)
        async with asyncio.timeout(LONGEST_SECONDS * machine_factor()):
            await done.wait()
        self.cache.listeners.remove(hear)
        # The status may arrive before the answer to the creation.
        return [max(0.0, served[name] - made[name]) for name in names], max(served.values()) - started

    async def deployed(self, name: str, *, pause: float) -> float:
        """Return the seconds from an Agent's creation to its Deployment, `pause` seconds after the creation."""
        seen: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        def hear(event: str, kind: str, body: Any) -> None:
            if kind == "Deployment" and body["metadata"]["name"] == name and not seen.done():
                seen.set_result(time.monotonic())

        self.cache.listeners.append(hear)
        await self.client.request("POST", path_of("Agent", OURS), agent(name, OURS))
        created = time.monotonic()
        async with within(f"the Deployment of {name} exists"):
            took = max(0.0, await seen - created)
        self.cache.listeners.remove(hear)
        await asyncio.sleep(max(0.0, created + pause - time.monotonic()))
        return took

    async def edit(self, name: str, text: str, *, space: str = OURS) -> float:
        """Return the seconds until an Agent's new instructions are programmed."""
        body = await self.client.apply(agent(name, space, instructions=text))
        began, generation = time.monotonic(), body["metadata"]["generation"]

        def served() -> bool:
            found = self.cache.find("Agent", space, name)
            return found is not None and found["metadata"]["generation"] >= generation and is_programmed(found)

        if not await self.cache.until(space, served, seconds=ceiling(), pause=0.0):
            raise TimeoutError(f"{name} was never programmed")
        return time.monotonic() - began

    async def edit_all(self, names: Sequence[str], text: str) -> None:
        """Edit all Agents, and return when all are programmed."""
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(name: str) -> int:
            async with gate:
                body = await self.client.apply(agent(name, OURS, instructions=text))
            return int(body["metadata"]["generation"])

        wanted = dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

        def served(name: str) -> bool:
            found = self.cache.find("Agent", OURS, name)
            return found is not None and found["metadata"]["generation"] >= wanted[name] and is_programmed(found)

        await self._until(lambda: all(map(served, names)), "edited Agents are programmed")

    async def delete_all(self, names: Sequence[str]) -> None:
        """Delete all Agents and wait for that. Their children stay, because no garbage collector runs here."""
        gate = asyncio.Semaphore(CONNECTIONS)

        async def one(name: str) -> None:
            async with gate:
                await self.client.delete("Agent", OURS, name)

        await asyncio.gather(*map(one, names))
        await self._until(lambda: not any(self.cache.find("Agent", OURS, name) for name in names), "Agents went")

    async def _until(self, holds: Callable[[], bool], what: str) -> None:
        if not await self.cache.until(OURS, holds, seconds=LONGEST_SECONDS * machine_factor(), pause=0.1):
            raise TimeoutError(f"never: {what}")

    async def bare(self, prefix: str, agents: int, *, rate: float = 0.0, space: str = BARE, ceiling: int = 0) -> Any:
        """Make the same writes from a separate process."""
        order = {
            "server": self.plane.server, "token": self.plane.token, "ca": str(self.plane.ca),
            "writes": str(self.recording), "connections": CONNECTIONS, "space": space, "prefix": prefix,
            "agents": agents, "rate": rate, "ceiling": ceiling,
        }  # fmt: skip
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "tests.bench.bare", json.dumps(order), stdout=asyncio.subprocess.PIPE
        )
        answer, _ = await process.communicate()
        if process.returncode:
            raise RuntimeError(f"the bare client ended with {process.returncode}")
        return json.loads(answer)

    async def _record(self) -> None:
        recorder = Recorder()
        async with FaultProxy(self.plane.server, self.plane.ca, Plan()) as proxy:
            proxy.heard = recorder.hear
            process = OperatorProcess(
                self.folder / "recorded", self.installation, server=proxy.url,
                environment={**_QUIET, "FLEETWRIGHT_NAMESPACES": SPACE},
            )  # fmt: skip
            self._operators.append(process)
            await process.started()
            before = proxy.requests["GET"]
            created = await self.client.request("POST", path_of("Agent", SPACE), agent(NAME, SPACE))

            def served() -> bool:
                found = self.cache.find("Agent", SPACE, NAME)
                return found is not None and is_programmed(found)

            if not await self.cache.until(SPACE, served, seconds=ceiling()):
                raise TimeoutError("the recorded Agent was never programmed")
            self.gets_per_agent = proxy.requests["GET"] - before
            await process.stop()
        metadata = created["metadata"]
        self.writes_per_agent = recorder.save(
            self.recording, uid=metadata["uid"], version=metadata["resourceVersion"]
        )  # fmt: skip


def is_programmed(body: Any) -> bool:
    generation = body["metadata"]["generation"]
    return any(
        condition["type"] == "Programmed"
        and condition["status"] == "True"
        and condition["observedGeneration"] == generation
        for condition in body.get("status", {}).get("conditions", ())
    )
