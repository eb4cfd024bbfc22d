"""Sample objects, an in-memory API server, and the operator running on it without a network."""

import asyncio
import base64
import inspect
import itertools
import math
import os
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client import CollectorRegistry

from fleetwright_api import names
from fleetwright_api.spec.agent import AgentView, parse_agent
from fleetwright_api.spec.mcp_server import McpServerView, parse_mcp_server
from fleetwright_kube.memory_api import MemoryApi
from fleetwright_kube.port import Object
from fleetwright_kube.timestamps import format_timestamp, parse_timestamp
from fleetwright_operator.approvals.delivery import Deliver
from fleetwright_operator.kinds.resources import RESOURCES
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.manager.composition import Clocks, build_manager
from fleetwright_operator.manager.leadership import workers, write_key_rings
from fleetwright_operator.manager.metrics import OperatorMetrics
from fleetwright_operator.observe.index_keys import Key
from fleetwright_operator.settings import GatewayReference, PodSelector, Settings

GOLDEN = Path(__file__).parent / "golden"
NOW = "2026-03-01T12:00:00Z"
_RETRY_SECONDS = 4
"""Longer than the first retries, and shorter than the time between two steps of a rotation."""
_OWN_VIEWS = {names.CARD_KEYS: "Secret", names.GATEWAY_KEYS: "Secret", names.KEY_SET: "ConfigMap"}


def custom(kind: str, name: str, spec: Mapping[str, Any], *, namespace: str = "shop", **metadata: Any) -> Object:
    return {
        "apiVersion": names.API_VERSION,
        "kind": kind,
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}", "generation": 1, **metadata},
        "spec": dict(spec),
        "status": {},
    }


def agent(name: str = "poet", *, namespace: str = "shop", **spec: Any) -> Object:
    model = {"name": "m", "baseURL": "https://models.example.com/v1"}
    return custom(names.AGENT, name, {"instructions": "Help.", "model": model, **spec}, namespace=namespace)


def skill(name: str = "haiku", text: str = "Three lines.") -> Object:
    document = f"---\nname: {name}\ndescription: Writes {name}.\n---\n{text}\n"
    files = {"SKILL.md": document, "references/form.md": "five seven five"}
    return custom(names.SKILL, name, {"source": {"inline": {"files": files}}})


def server(name: str = "tools", **workload: Any) -> Object:
    return custom(names.MCP_SERVER, name, {"workload": {"image": "docker.io/example/tools:1", **workload}})


def secret(name: str = "key", **data: str) -> Object:
    metadata = {"name": name, "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data or {"api-key": "eA=="}}


class OperatorApi(MemoryApi):
    """The in-memory API with the operator's kinds, and with what controllers and kubelets report."""

    def __init__(self, *, write_cap: int = 5_000) -> None:
        super().__init__(SCHEME, views=_OWN_VIEWS, namespace="shop", created=NOW, write_cap=write_cap)

    def roll_out(self, name: str, *, namespace: str = "shop") -> None:
        """Report what the Deployment controller and a kubelet report of a successful rollout."""
        generation = self.find("Deployment", name, namespace=namespace)["metadata"]["generation"]
        counts = dict.fromkeys(("replicas", "updatedReplicas", "availableReplicas"), 1)
        self.set_status("Deployment", name, {**counts, "observedGeneration": generation}, namespace=namespace)

    def end_pod(
        self,
        name: str,
        *,
        says: str = "",
        refuses: str = "",
        code: int = 2,
        namespace: str = "shop",
        container: str = "probe",
    ) -> None:
        """Report what a kubelet reports of a pod that ended, with a report as its log or a termination message."""
        ended = {"exitCode": code if refuses else 0, "reason": "Error" if refuses else "Completed", "message": refuses}
        reported = {"name": container, "image": "img", "state": {"terminated": ended}}
        self.logs[name] = says
        phase = "Failed" if refuses else "Succeeded"
        self.set_status("Pod", name, {"phase": phase, "containerStatuses": [reported]}, namespace=namespace)

    def probes(self, owner: str) -> list[str]:
        """Return the names of the pods that probe something for an object of that name."""
        pods = [body["metadata"] for body in self.all("Pod")]
        return [
            pod["name"]
            for pod in pods
            if pod["labels"].get(names.COMPONENT) == names.PROBE and pod["labels"][names.NAME] == owner
        ]


@dataclass(frozen=True)
class ScheduledReconcile:
    timer: asyncio.TimerHandle
    due: int
    """By the operator's clock."""
    delay: int
    """The seconds that remained when the timer was seen first."""


class World:
    """The operator on the in-memory API, with running workers, events, and short delays in real time."""

    def __init__(self, api: OperatorApi, settings: Settings, *, deliver: Deliver | None = None) -> None:
        self.api = api
        self.moment = parse_timestamp(NOW)
        self._scheduled: dict[Key, ScheduledReconcile] = {}
        self.seconds = 0.0
        """The clock that schedules the next reconciles."""
        minted = itertools.count(1)
        self.manager = build_manager(
            api,
            settings=settings,
            metrics=OperatorMetrics(CollectorRegistry()),
            clocks=Clocks(
                now=lambda: format_timestamp(self.moment),
                monotonic=lambda: self.seconds,
                mint=lambda: f"token-{next(minted)}".ljust(43, "x"),
                new_secret=lambda: base64.urlsafe_b64encode(self.moment.to_bytes(32, "big")).decode(),
            ),
            warning_seconds=0.2,
            deliver=deliver,
        )
        self._tasks: list[asyncio.Task[None]] = []

    def tell_events(self) -> None:
        """Start to write Events, as a leading process does."""
        self._tasks.append(asyncio.create_task(self.manager.event_recorder.run()))

    async def start(self) -> None:
        self.api.listeners.append(self._hear)
        await self.manager.cache_sync.synchronise()
        await write_key_rings(self.manager)
        self._tasks = [asyncio.create_task(worker) for worker in workers(self.manager)]

    async def stop(self) -> None:
        self.api.listeners.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _hear(self, event: str, kind: str, body: Object) -> None:
        resource = RESOURCES.get(kind)
        if resource is not None and (not resource.selector or SCHEME.is_ours(body["metadata"].get("labels", {}))):
            self.manager.cache_sync.informer.event(kind, event, body)
        if (body["metadata"]["namespace"], body["metadata"]["name"]) == self.manager.settings.card_keys_place:
            own = {"Secret": names.CARD_KEYS, "ConfigMap": names.KEY_SET}[kind]
            self.manager.cache_sync.informer.event(own, event, body)
        place = (body["metadata"]["namespace"], body["metadata"]["name"])
        if kind == "Secret" and place == self.manager.settings.gateway_keys_place:
            self.manager.cache_sync.informer.event(names.GATEWAY_KEYS, event, body)
        if f"{kind}Metadata" in RESOURCES:
            metadata_only = {"kind": kind, "metadata": body["metadata"]}
            self.manager.cache_sync.informer.event(f"{kind}Metadata", event, metadata_only)

    def check(self) -> None:
        """Fail with a message if a worker ended. The write limit of the in-memory API ends a worker that loops."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def settle(self, *, seconds: float = 8.0) -> None:
        """Wait until no write happens, and all pending work waits longer than the first retries do."""
        quiet = 0
        count = -1
        for _ in range(int(seconds / 0.02)):
            await asyncio.sleep(0.02)
            self.check()
            same = count == len(self.api.writes) and self.manager.queue.depth == 0
            quiet = quiet + 1 if same else 0
            count = len(self.api.writes)
            if quiet > 3 and self._shortest_delay() > _RETRY_SECONDS:
                return
        pytest.fail(f"never settles; last writes: {self.api.writes[-10:]}")

    def soonest(self) -> float:
        """Return the seconds until the next scheduled reconcile, or infinity."""
        now = asyncio.get_running_loop().time()
        return min((timer.when() - now for timer in self.manager.queue._timers.values()), default=math.inf)

    def _shortest_delay(self) -> float:
        """Return the shortest delay of the scheduled reconciles, as it was when each was scheduled, or infinity.

        The rest of a long delay becomes short while a test waits, but the operator's clock does not advance by itself.
        """
        self._due()
        return min((self._scheduled[key].delay for key in self.manager.queue._timers), default=math.inf)

    def _due(self) -> dict[Key, int]:
        """Return when each key is due, by the operator's clock. A timer knows only the real one."""
        now = asyncio.get_running_loop().time()
        for key, timer in self.manager.queue._timers.items():
            if key not in self._scheduled or self._scheduled[key].timer is not timer:
                delay = math.ceil(timer.when() - now)
                self._scheduled[key] = ScheduledReconcile(timer, self.moment + delay, delay)
        return {key: self._scheduled[key].due for key in self.manager.queue._timers}

    async def later(self, seconds: float) -> None:
        """Advance the clock, and run each key that is due in that time at its moment."""
        end = self.moment + int(seconds)
        while (due := self._due()) and min(due.values()) <= end:
            self.moment = max(self.moment, min(due.values()))
            for key in [key for key, at in due.items() if at <= self.moment]:
                self.manager.queue.add(key)
            await self.settle()
        self.moment = end

    async def until(self, look: Callable[[], bool], *, seconds: float = 5.0) -> None:
        for _ in range(int(seconds / 0.02)):
            if look():
                return
            await asyncio.sleep(0.02)
            self.check()
        wanted = " ".join(inspect.getsource(look).split())
        pytest.fail(f"this was never true: {wanted}; last writes: {self.api.writes[-10:]}")

    def conditions(self, kind: str, name: str) -> dict[str, tuple[str, str, str]]:
        """Return status, reason and message by type."""
        found = self.api.find(kind, name)["status"].get("conditions", ())
        return {
            condition["type"]: (condition["status"], condition["reason"], condition["message"]) for condition in found
        }


@pytest.fixture
def settings() -> Settings:
    return Settings(
        operator=PodSelector(namespace="fleetwright-system", labels={"app.kubernetes.io/name": "fleetwright-operator"}),
        monitoring=PodSelector(namespace="monitoring", labels={"app": "prometheus"}),
    )


@pytest.fixture
def with_gateway(settings: Settings) -> Settings:
    pods = PodSelector(namespace="fleetwright-system", labels={"app.kubernetes.io/component": "gateway"})
    return replace(settings, gateway=GatewayReference(url="http://fleetwright-gateway.fleetwright-system", pods=pods))


@pytest.fixture
def api() -> OperatorApi:
    return OperatorApi()


@pytest.fixture
async def world(api: OperatorApi, settings: Settings) -> AsyncIterator[World]:
    world = World(api, settings)
    yield world
    await world.stop()


@pytest.fixture
def make_world(settings: Settings) -> Callable[..., World]:
    return lambda api, other=settings, **more: World(api, other, **more)


@pytest.fixture
def golden() -> Iterator[Callable[[str, list[Object]], None]]:
    """Compare manifests with golden/<name>.yaml. FLEETWRIGHT_WRITE_GOLDEN=1 writes the files again."""

    def compare(name: str, manifests: list[Object]) -> None:
        text = yaml.safe_dump_all(manifests, sort_keys=False, width=120)
        file = GOLDEN / f"{name}.yaml"
        if os.environ.get("FLEETWRIGHT_WRITE_GOLDEN"):
            file.write_text(text)
        assert list(yaml.safe_load_all(file.read_text())) == manifests
        assert file.read_text() == text

    return compare


@pytest.fixture
def objects() -> Any:
    """The factories of sample objects."""

    class Objects:
        agent = staticmethod(agent)
        skill = staticmethod(skill)
        server = staticmethod(server)
        secret = staticmethod(secret)
        custom = staticmethod(custom)

        @staticmethod
        def agent_view(*args: Any, **spec: Any) -> AgentView:
            return parse_agent(agent(*args, **spec))

        @staticmethod
        def server_view(*args: Any, **workload: Any) -> McpServerView:
            return parse_mcp_server(server(*args, **workload))

    return Objects
