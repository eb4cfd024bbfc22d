"""Waking a sleeping agent: one request to the operator, bounded waiting, and only the agent's own pod."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from tests.support.gateway.fleet_api import NOW, FleetApi

from fleetwright_a2a.clock import Clock
from fleetwright_api import names
from fleetwright_gateway.cluster.fleet import Fleet, Pod
from fleetwright_gateway.cluster.synchroniser import Synchroniser
from fleetwright_gateway.telemetry.metrics import GatewayMetrics
from fleetwright_gateway.wake.false_condition import first_false_condition
from fleetwright_gateway.wake.holds import HoldLimit, Holds
from fleetwright_gateway.wake.waker import NotAwake, Target, Waker
from fleetwright_kube.errors import ApiError, ConflictError, ForbiddenError, InvalidRequestError, NotFoundError

ASLEEP = {"phase": "Asleep", "sleep": {"since": "2026-03-01T11:00:00Z"}}


class Rig:
    """A waker in virtual time, whose cache follows the cluster."""

    def __init__(self, api: FleetApi, **bounds: int) -> None:
        self.api = api
        self.fleet = Fleet()
        self.probed: list[str] = []
        self.answers = True
        loop = asyncio.get_running_loop()
        self.clock = Clock(now_ns=lambda: int((NOW + loop.time()) * 1e9), monotonic=loop.time)
        self.metrics = GatewayMetrics(CollectorRegistry())
        self.waker = Waker(
            api,
            self.fleet,
            Holds(self.clock, **bounds),
            is_ready=self._is_ready,
            clock=self.clock,
            metrics=self.metrics,
            seconds=30.0,
        )

    async def _is_ready(self, pod: Pod, agent_uid: str) -> bool:
        self.probed.append(pod.ip)
        return self.answers

    async def follow(self) -> None:
        synchroniser = Synchroniser(self.api, self.fleet, namespaces=(), resync_seconds=60)
        assert await synchroniser.fill()
        views = {"ReplicaSet": "ReplicaSetMetadata", "Deployment": "DeploymentMetadata"}
        self.api.listeners.append(
            lambda event, kind, body: synchroniser.informer.event(views.get(kind, kind), event, body)
        )

    async def target(self, name: str = "sleeper", *, caller: str = "user:ada", size: int = 100) -> Target:
        return await self.waker.target(self.fleet.agents["team", name], caller=caller, size=size)

    def wakes(self) -> int:
        return sum(write.startswith(f"merge {names.AGENT}") for write in self.api.writes)

    def start_pod(self, name: str = "sleeper", *, ip: str = "10.0.0.5", ready: bool = False) -> None:
        owner = self.api.find("ReplicaSet", f"{name}-1")
        self.api.add_pod(f"{name}-1-b", owner=owner, account=name, ip=ip, ready=ready)


@pytest.fixture
async def rig(api: FleetApi) -> Rig:
    made = Rig(api)
    for name in ("sleeper", "other"):
        api.add_agent(name, spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
        api.add_deployment(name)
    await made.follow()
    return made


async def test_waker_wakes_an_agent_and_reports_the_cold_start(api, rig):
    waiting = asyncio.create_task(rig.target())
    await asyncio.sleep(1.5)
    rig.start_pod()
    target = await waiting
    assert (target.pod.ip, target.pod.uid) == ("10.0.0.5", api.find("Pod", "sleeper-1-b")["metadata"]["uid"])
    assert 1500 <= target.cold_start_ms <= 1700
    assert rig.wakes() == 1
    annotation = api.find(names.AGENT, "sleeper")["metadata"]["annotations"][names.WAKE_ANNOTATION]
    assert annotation.startswith("2026-03-01T12:00:00.")
    assert annotation.endswith("Z")
    assert rig.metrics.registry.get_sample_value("fleetwright_gateway_wakes_total", {"outcome": "awake"}) == 1


async def test_waker_asks_once_for_many_requests(rig):
    waiting = [asyncio.create_task(rig.target(caller=f"user:{number}")) for number in range(50)]
    await asyncio.sleep(1)
    rig.start_pod()
    assert {target.pod.ip for target in await asyncio.gather(*waiting)} == {"10.0.0.5"}
    assert rig.wakes() == 1


async def test_requests_before_the_report_of_the_kubelet_wake_nothing(rig):
    waiting = asyncio.create_task(rig.target())
    rig.start_pod()
    await waiting
    for _ in range(30):  # A caller may wake 20 agents a minute.
        target = await rig.target()
        assert (target.pod.ip, target.cold_start_ms) == ("10.0.0.5", None)
    assert rig.wakes() == 1


async def test_answer_to_a_probe_counts_for_some_seconds_only(rig):
    waiting = asyncio.create_task(rig.target())
    rig.start_pod()
    await waiting
    await asyncio.sleep(16)
    assert (await rig.target()).cold_start_ms is not None
    assert rig.wakes() == 2


async def test_pod_that_is_no_longer_ready_serves_no_request(rig):
    waiting = asyncio.create_task(rig.target())
    rig.start_pod()
    await waiting
    rig.start_pod(ready=True)
    assert (await rig.target()).cold_start_ms is None
    rig.start_pod(ready=False)
    rig.answers = False
    with pytest.raises(NotAwake, match="did not wake in time"):
        await rig.target()


async def test_waker_returns_the_pod_of_an_awake_agent_at_once(rig):
    rig.start_pod(ready=True)
    assert (await rig.target()).cold_start_ms is None
    assert (rig.wakes(), rig.probed) == (0, [])


async def test_waker_waits_until_the_pod_itself_is_ready(rig):
    rig.answers = False
    waiting = asyncio.create_task(rig.target())
    rig.start_pod()
    await asyncio.sleep(2)
    assert not waiting.done()
    rig.answers = True
    assert (await waiting).pod.ip == "10.0.0.5"
    assert 19 <= len(rig.probed) <= 23


async def test_waker_never_trusts_an_address_that_another_pod_took(api, rig):
    """The pod is replaced while it is asked, and another pod answers at its address."""
    waiting = asyncio.create_task(rig.target())
    original = rig.waker._is_ready

    async def replaced(pod: Pod, agent_uid: str) -> bool:
        api.remove("Pod", "sleeper-1-b")
        rig.waker._is_ready = original
        return True

    rig.waker._is_ready = replaced
    rig.start_pod()
    await asyncio.sleep(1)
    assert not waiting.done()
    rig.start_pod(ip="10.0.0.6")
    assert (await waiting).pod.ip == "10.0.0.6"


async def test_waker_gives_up_after_30_seconds(rig):
    started = asyncio.get_running_loop().time()
    with pytest.raises(NotAwake, match="did not wake in time"):
        await rig.target()
    assert 30 <= asyncio.get_running_loop().time() - started < 31
    assert rig.metrics.registry.get_sample_value("fleetwright_gateway_wakes_total", {"outcome": "failed"}) == 1


def conditions(*found: tuple[str, str, str]) -> list[dict[str, str]]:
    secret = "secret: the last line of the log"
    return [{"type": kind, "status": status, "reason": reason, "message": secret} for kind, status, reason in found]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        pytest.param([("Available", "False", "ImagePull")], ": Available is False, ImagePull.", id="no image"),
        pytest.param([("Available", "False", "Quota")], ": Available is False, Quota.", id="no quota"),
        pytest.param([("Available", "False", "Unschedulable")], ": Available is False, Unschedulable.", id="no node"),
        pytest.param(
            [("Ready", "False", "Forbidden"), ("Available", "False", "Blocked"), ("Programmed", "False", "Forbidden")],
            ": Programmed is False, Forbidden.",
            id="the first stage",
        ),
        pytest.param([("Available", "Unknown", "NotObserved")], ".", id="not known"),
        pytest.param([("Available", "True", "Asleep"), ("Degraded", "True", "ModelFailing")], ".", id="no stage"),
        pytest.param([("Available", "False", "a\nb")], ": Available is False.", id="no word"),
        pytest.param([("Available", "False", "x" * 65)], ": Available is False.", id="a long word"),
    ],
)
async def test_waker_names_the_stage_that_failed(api, rig, found, says):
    waiting = asyncio.create_task(rig.target())
    await asyncio.sleep(1)
    api.set_status(names.AGENT, "sleeper", {"phase": "Pending", "conditions": conditions(*found)})
    with pytest.raises(NotAwake) as error:
        await waiting
    assert error.value.sentence == f"The agent did not wake in time{says}"


@pytest.mark.parametrize("listed", [None, "x", [None, "x", {}, {"type": []}]], ids=["null", "text", "other types"])
def test_false_condition_reads_a_malformed_status(listed):
    assert first_false_condition({"conditions": listed}) == ""


@pytest.mark.parametrize(
    ("error", "times", "patches"),
    [
        pytest.param(ForbiddenError("no"), 1, 1, id="403"),
        pytest.param(NotFoundError("no"), 1, 1, id="404"),
        pytest.param(InvalidRequestError("no"), 1, 1, id="422"),
        pytest.param(ApiError("down", code=500), 3, 3, id="500 three times"),
    ],
)
async def test_waker_reports_a_patch_that_fails(api, rig, error, times, patches):
    tried = failing_patches(api, error, times=times)
    with pytest.raises(NotAwake, match="cannot be woken"):
        await rig.target()
    assert len(tried) == patches


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(ConflictError("changed"), id="409"),
        pytest.param(ApiError("slow down", code=429), id="429"),
        pytest.param(ApiError("down", code=500), id="500"),
        pytest.param(ApiError("gateway timeout", code=504), id="504"),
        pytest.param(ConnectionResetError(), id="a lost connection"),
        pytest.param(TimeoutError(), id="no response"),
    ],
)
async def test_waker_repeats_a_patch_that_failed(api, rig, error):
    tried = failing_patches(api, error, times=2)
    waiting = asyncio.create_task(rig.target())
    await asyncio.sleep(2)
    rig.start_pod()
    assert (await waiting).pod.ip == "10.0.0.5"
    assert len(tried) == 3


class LosingApi(FleetApi):
    """An API server whose first response to a patch is lost."""

    async def merge(self, *args: Any, **options: Any) -> Any:
        is_first = not any(write.startswith("merge") for write in self.writes)
        patched = await super().merge(*args, **options)
        if is_first:
            await asyncio.Event().wait()
        return patched


async def test_waker_repeats_a_patch_without_a_response():
    api = LosingApi()
    api.add_agent("sleeper", spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
    api.add_deployment("sleeper")
    rig = Rig(api)
    await rig.follow()
    waiting = asyncio.create_task(rig.target())
    await asyncio.sleep(1)
    rig.start_pod()
    assert 5_000 <= (await waiting).cold_start_ms <= 6_000
    assert rig.wakes() == 2


def failing_patches(api: FleetApi, error: Exception, *, times: int) -> list[str]:
    """Let the next patches of an Agent fail. Return the list of all that are tried."""
    tried: list[str] = []

    def fault(_: int, what: str) -> Exception | None:
        if not what.startswith("merge Agent"):
            return None
        tried.append(what)
        return error if len(tried) <= times else None

    api.fault = fault
    return tried


@pytest.mark.parametrize(
    ("spec", "status", "says"),
    [
        pytest.param({}, {"phase": "Pending"}, "no ready pod", id="an agent that never sleeps"),
        pytest.param({"suspend": True, "sleep": {"afterIdle": "1m"}}, ASLEEP, "suspended", id="a suspended agent"),
        pytest.param(
            {"sleep": {"afterIdle": "1m"}}, {"phase": "Suspended"}, "together with its team", id="a suspended team"
        ),
    ],
)
async def test_waker_wakes_only_agents_that_sleep(api, rig, spec, status, says):
    api.add_agent("awake", spec=spec, status=status)
    with pytest.raises(NotAwake, match=says):
        await rig.target("awake")
    assert rig.wakes() == 0


async def test_waker_keeps_waking_when_a_caller_leaves(rig):
    leaving, staying = asyncio.create_task(rig.target()), asyncio.create_task(rig.target())
    await asyncio.sleep(1)
    leaving.cancel()
    rig.start_pod()
    assert (await staying).pod.ip == "10.0.0.5"
    assert leaving.cancelled()


async def test_waker_bounds_the_requests_that_wait(api):
    rig = Rig(api, per_agent=2, max_bytes=1000)
    for name in ("sleeper", "other"):
        api.add_agent(name, spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
        api.add_deployment(name)
    await rig.follow()
    waiting = [asyncio.create_task(rig.target(size=400)) for _ in range(2)]
    await asyncio.sleep(0.5)
    with pytest.raises(HoldLimit, match="for this agent"):
        await rig.target(size=1)
    with pytest.raises(HoldLimit, match="for agents to wake"):
        await rig.target("other", size=300)
    rig.start_pod()
    await asyncio.gather(*waiting)
    rig.start_pod("other", ip="10.0.0.7", ready=False)
    assert (await rig.target("other", size=300)).pod.ip == "10.0.0.7"


async def test_waker_bounds_the_wakes_of_each_caller(api):
    rig = Rig(api, per_minute=1)
    for name in ("sleeper", "other"):
        api.add_agent(name, spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
        api.add_deployment(name)
    await rig.follow()
    rig.start_pod()
    await rig.target()
    with pytest.raises(HoldLimit, match="may wake 1 agents a minute"):
        await rig.target("other")


async def test_waker_bounds_the_wakes_at_once(api):
    rig = Rig(api)
    for number in range(11):
        api.add_agent(f"agent-{number}", spec={"sleep": {"afterIdle": "15m"}}, status=ASLEEP)
        api.add_deployment(f"agent-{number}")
    await rig.follow()
    callers = [f"user:{number % 2}" for number in range(11)]
    waiting = [
        asyncio.create_task(rig.target(f"agent-{number}", caller=callers[number]))
        for number in (0, 2, 4, 6, 8, 1, 3, 5, 7)
    ]
    await asyncio.sleep(0.5)
    with pytest.raises(HoldLimit, match="This caller may wake 5 agents at the same time") as refused:
        await rig.target("agent-10", caller="user:0")
    assert refused.value.retry_seconds == 10
    waiting.append(asyncio.create_task(rig.target("agent-9", caller="user:1")))
    await asyncio.sleep(0.5)
    with pytest.raises(HoldLimit, match="Too many agents wake"):
        await rig.target("agent-10", caller="user:2")
    for number in range(10):
        rig.start_pod(f"agent-{number}")
    await asyncio.gather(*waiting)
    assert replace(await rig.target("agent-0"), cold_start_ms=None).pod.ip == "10.0.0.5"
    # The wakes have ended, so they count no longer.
    again = asyncio.create_task(rig.target("agent-10", caller="user:0"))
    await asyncio.sleep(0.5)
    rig.start_pod("agent-10")
    await again


async def test_waker_bounds_the_bytes_of_one_caller(rig):
    mebibyte = 1024 * 1024
    waiting = [asyncio.create_task(rig.target(size=mebibyte)) for _ in range(16)]
    await asyncio.sleep(0.5)
    with pytest.raises(HoldLimit, match="Too many requests of this caller"):
        await rig.target(size=1)
    waiting.append(asyncio.create_task(rig.target(caller="user:eve", size=mebibyte)))
    await asyncio.sleep(0.5)
    rig.start_pod()
    await asyncio.gather(*waiting)
    assert (await rig.target(size=mebibyte)).cold_start_ms is None
