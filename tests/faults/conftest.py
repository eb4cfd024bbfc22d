"""Operators behind fault proxies on a separate control plane: long faults, deletions, leader election.

`make sweep` injects short faults into single writes or events. Here faults last for a while, or affect more than a
request. The docstring of each test has the number of its fault, O2 to O20.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.ports import next_name
from e2e.cluster.progress import CANNOT_RUN
from e2e.control_plane.client import Client, Refusal, path_of
from e2e.control_plane.installation import install_crds, install_release, make_namespace
from e2e.control_plane.kubelet import Kubelet
from e2e.control_plane.normalised_state import NormalisedState, Reader
from e2e.control_plane.process import OPERATOR, OperatorProcess
from e2e.control_plane.sessions import reap
from e2e.control_plane.watch_cache import WatchCache
from e2e.faults import flows
from e2e.faults.plan import Plan
from e2e.faults.proxy import FaultProxy
from tests.rings.catalogue import CONTROL_PLANE_PROGRAMS
from tests.support.machine import ceiling
from tests.support.waiting import NotInTimeError, await_until

from fleetwright_api.names import API_VERSION, FIELD_MANAGER, MANAGED_BY

Object = dict[str, Any]
FAST = {"FLEETWRIGHT_STALLED_SECONDS": "2", "FLEETWRIGHT_RESYNC_SECONDS": "3600"}


def pytest_sessionstart(session: pytest.Session) -> None:
    obstacle = binaries.obstacle(CONTROL_PLANE_PROGRAMS)
    if obstacle:
        pytest.exit(obstacle, returncode=CANNOT_RUN)
    reap(session)


@pytest.fixture(scope="session")
def plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    async def prepare(plane: ControlPlane) -> None:
        async with Client(plane.server, plane.token, plane.ca) as client:
            await install_crds(client)

    with ControlPlane(tmp_path_factory.mktemp("faults"), roomy=True) as plane:
        asyncio.run(prepare(plane))
        plane.restart_controllers()  # The garbage collector discovers new kinds when it starts, or every 30 s.
        yield plane
    for _ in range(20):
        plane.processes.alive()  # Reap the process, which has many threads.


_WAITED_TOGETHER = 50
"""The number of objects that have the time of one wait."""


class Operator:
    """An operator process and the proxy in front of it. It manages one namespace and has no rights in others."""

    def __init__(self, proxy: FaultProxy, plan: Plan, process: OperatorProcess) -> None:
        self.proxy = proxy
        self.plan = plan
        self.process = process

    async def passes(self, kind: str = "Agent") -> float:
        metrics = await self.process.metrics()
        named = f'fleetwright_reconcile_total{{kind="{kind}"'
        return sum(value for key, value in metrics.items() if key.startswith(named))

    async def writes(self) -> float:
        return await self.process.total("fleetwright_api_writes_total")


class Stand:
    """The namespaces, operators and watch cache of one test."""

    def __init__(self, plane: ControlPlane, folder: Path, stack: AsyncExitStack) -> None:
        self.plane = plane
        self.folder = folder
        self._stack = stack
        self._reader = Reader()
        self._prefix = next_name("t")
        self._made = 0
        self._operators: list[Operator] = []
        self.may_be_refused = ""
        """The text of every 403 that the test expects. Any other 403 fails the test."""
        self.most_writes = 100
        """The number of writes of one kind to one object that the operators may need."""

    async def start(self) -> None:
        self.client = await self._stack.enter_async_context(Client(self.plane.server, self.plane.token, self.plane.ca))
        self.cache = await self._stack.enter_async_context(WatchCache(self.client, prefix=self._prefix))
        self.kubelet = Kubelet(self.client, self.cache)

    async def space(self) -> str:
        self._made += 1
        name = f"{self._prefix}-space-{self._made:02}"
        await make_namespace(self.client, name)
        return name

    async def release(self, *spaces: str) -> Any:
        return await install_release(self.client, f"{spaces[0]}-system", namespaces=spaces)

    async def operator(
        self,
        *spaces: str,
        name: str = "first",
        start: bool = True,
        command: Sequence[str] = OPERATOR,
        **environment: str,
    ) -> Operator:
        """Start an operator for these namespaces, with a release's rights. Other operators of them become standbys."""
        plan = Plan()
        proxy = await self._stack.enter_async_context(FaultProxy(self.plane.server, self.plane.ca, plan))
        settings = {**FAST, "FLEETWRIGHT_NAMESPACES": ",".join(spaces), **environment}
        installation = await self.release(*spaces)
        process = OperatorProcess(
            self.folder / spaces[0] / name, installation, server=proxy.url, environment=settings, command=command
        )  # fmt: skip
        self._stack.callback(process.kill_if_alive)
        if start:
            await process.started()
        self._operators.append(Operator(proxy, plan, process))
        return self._operators[-1]

    def refused(self) -> list[str]:
        """Return the unexpected requests of the operators for which they had no right."""
        found = [line for operator in self._operators for line in operator.proxy.refused]
        return [line for line in found if not self.may_be_refused or self.may_be_refused not in line]

    def find_repeated_writes(self) -> list[str]:
        return [line for each in self._operators for line in each.proxy.find_repeated_writes(self.most_writes)]

    def find_delayed_writes(self) -> list[str]:
        return [line for each in self._operators for line in each.process.delayed_writes()]

    def condition(self, kind: str, space: str, name: str, condition: str) -> Object:
        """Return the condition for the current generation, or an empty mapping."""
        body = self.cache.find(kind, space, name) or {}
        for found in body.get("status", {}).get("conditions", ()):
            if found["type"] == condition and found["observedGeneration"] == body["metadata"]["generation"]:
                return dict(found)
        return {}

    async def until(
        self, space: str, holds: Callable[[], object], what: str, *, shown: Callable[[], object] | None = None
    ) -> None:
        """Wait for a condition, which is evaluated after each change of the namespace."""
        seconds = ceiling()
        if not await self.cache.until(space, lambda: bool(holds()), seconds=seconds, pause=0.02):
            seen = shown() if shown else sorted(self.versions(space))
            raise NotInTimeError(f"not within {seconds:.0f} s: {what}; last seen: {str(seen)[-4000:]}")

    async def wait_until_programmed(self, space: str, *names: str, kind: str = "Agent") -> None:
        await self._all_are("Programmed", space, names, kind=kind)

    async def wait_until_ready(self, space: str, *names: str) -> None:
        """Wait until these agents are ready, after which the operator has nothing left to write about them."""
        await self._all_are("Ready", space, names, kind="Agent")

    async def _all_are(self, condition: str, space: str, names: Sequence[str], *, kind: str) -> None:
        """Wait for a part of the objects after the other, so that each has the time of one wait."""
        for start in range(0, len(names), _WAITED_TOGETHER):
            await self._await_condition(condition, space, names[start : start + _WAITED_TOGETHER], kind=kind)

    async def _await_condition(self, condition: str, space: str, names: Sequence[str], *, kind: str) -> None:
        def open_names() -> list[str]:
            return [name for name in names if self.condition(kind, space, name, condition).get("status") != "True"]

        await self.until(
            space,
            lambda: not open_names(),
            f"{len(names)} objects of kind {kind} are {condition}",
            shown=lambda: [
                (name, (self.cache.find(kind, space, name) or {}).get("status")) for name in open_names()[:3]
            ],
        )

    async def agent(self, space: str, name: str = "poet", **spec: Any) -> Object:
        return await self.client.apply(flows.agent(name, space, **spec))

    async def put(self, kind: str, space: str, name: str, spec: object) -> None:
        """Write an object as it is, including shapes that no apply could merge."""
        body = {"apiVersion": API_VERSION, "kind": kind, "metadata": {"name": name, "namespace": space}}
        while True:
            found = await self.client.find(kind, space, name)
            try:
                if found is None:
                    await self.client.request("POST", path_of(kind, space), {**body, "spec": spec})
                else:
                    await self.client.request("PUT", path_of(kind, space, name), {**found, "spec": spec})
                return
            except Refusal as refusal:
                if refusal.status != 409:  # The operator wrote its status in the meantime.
                    raise

    def is_told(self, kind: str, space: str, name: str) -> bool:
        """Return True if a condition with a reason reports a failure."""
        found = (self.condition(kind, space, name, stage) for stage in ("Accepted", "ReferencesResolved", "Programmed"))
        return any(each.get("status") == "False" and each["reason"] and each["message"] for each in found)

    async def fleet(self, space: str) -> None:
        """Create an agent that uses one of everything that leads to children."""
        await self.client.apply(flows.key(space, "one"))
        await self.client.apply(flows.files("prose", space, "Write well."))
        await self.client.apply(flows.skill("haiku", space, "Three lines."))
        await self.client.apply(flows.skill_of_files("prose", space))
        await self.client.apply(flows.server("tools", space))
        await self.agent(space, "helper")
        await self.client.apply(flows.agent("poet", space, **flows.USES))

    def fleet_is_ready(self, space: str) -> bool:
        fleet = ("Agent", "poet"), ("Agent", "helper"), ("Skill", "haiku"), ("Skill", "prose"), ("McpServer", "tools")
        return all(self.condition(kind, space, name, "Ready").get("status") == "True" for kind, name in fleet)

    def in_use(self, space: str) -> list[Object]:
        """Return the children in use. The retained older ones change with every edit."""
        bodies = list(self.cache.objects(space).values())
        mounted = json.dumps([body["spec"] for body in bodies if body["kind"] == "Deployment"])
        ours = [body for body in bodies if body["metadata"].get("labels", {}).get(MANAGED_BY) == FIELD_MANAGER]
        ours = [body for body in ours if body["kind"] != "Pod"]
        return [body for body in ours if body["kind"] != "ConfigMap" or body["metadata"]["name"] in mounted]

    def state(self, space: str) -> NormalisedState:
        return self._reader.read(self.cache.objects(space).values(), namespace=space)

    def versions(self, space: str) -> dict[tuple[str, str], str]:
        objects = self.cache.objects(space)
        return {key: body["metadata"]["resourceVersion"] for key, body in objects.items()}

    def children(self, space: str, owner: str = "poet") -> list[Object]:
        found = self.cache.objects(space).values()
        return [body for body in found if body["metadata"].get("labels", {}).get("fleetwright.dev/agent") == owner]

    async def quiet(self, space: str, *, seconds: float = 2.5) -> None:
        """Wait until nothing has changed for so many seconds."""
        before: dict[tuple[str, str], str] = {}

        async def is_quiet() -> bool:
            nonlocal before
            before = self.versions(space)
            await asyncio.sleep(seconds)
            return self.versions(space) == before

        await await_until(is_quiet, f"nothing changes in {space}", shown=lambda: before)


@pytest.fixture
def stand_on(tmp_path: Path) -> Callable[[ControlPlane, AsyncExitStack], Awaitable[Stand]]:
    """Run the test on another control plane than the session's."""

    async def start(plane: ControlPlane, stack: AsyncExitStack) -> Stand:
        stand = Stand(plane, tmp_path, stack)
        await stand.start()
        return stand

    return start


@pytest.fixture
async def stand(plane: ControlPlane, tmp_path: Path) -> AsyncIterator[Stand]:
    async with AsyncExitStack() as stack:
        stand = Stand(plane, tmp_path, stack)
        await stand.start()
        yield stand
    assert stand.refused() == [], "the chart's rights are too small"
    assert stand.find_repeated_writes() == [], "the operator is in a loop"
    assert stand.find_delayed_writes() == [], "the operator repeats a write"
    await asyncio.sleep(0.3)  # Let the TLS connections close.
