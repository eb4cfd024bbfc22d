"""Inject every fault at every point of every step, in parallel namespaces, and compare with the reference.

A namespace is one chain: it goes through the steps one after the other, with the faults of one write for each object in
each. A chain continues only if each step ended in the state of the reference. Chains are distributed over operator
groups. A group is an operator behind a proxy, with a process that controls it. A kill ends the whole operator, so the
sweep combines kills. The proxy blocks each write that needs a kill, until the operator is blocked at all of these
writes or makes no more progress. Then the operator is killed once, and another one starts.
"""

import asyncio
import multiprocessing
import signal
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from e2e.cluster.control_plane import ControlPlane
from e2e.control_plane.client import Client
from e2e.control_plane.installation import install_crds, install_release, make_namespace
from e2e.control_plane.kubelet import Kubelet
from e2e.control_plane.watch_cache import WatchCache
from e2e.faults.cases import Chain, Findings, Steps, chains, errors, kills, last_step, losses, sampled
from e2e.faults.flows import OBJECTS, Flow
from e2e.faults.keys import CARDS, GATEWAY, keys_swept
from e2e.faults.operator_group import OperatorGroup, Place, Scene, scene_of
from e2e.faults.reference import Disagreement, References, record
from e2e.faults.runtimes import Runtimes
from e2e.faults.team_flow import TEAM
from e2e.faults.verifier import Verifier

_REFERENCES = 3
_ATTEMPTS = 3
"""The number of reference runs until one must have ended alike in all its namespaces.

The order in which two watches deliver their events may lead to one edit more. This is not an error, but no reference
either.
"""
_PROCESSES = 9
"""One for each item of `_works` and `_team_works`, and one for each key ring."""
_WHOLE_PROCESSES = 5
"""All cases use whole processors, and more operators at the same time would only delay each other."""
_AT_ONCE = 15
"""The number of concurrent namespaces for errors and for lost events.

Kills take longest, because the operator restarts.
"""
_CONFINED = 45
"""The number of namespaces of one confined operator, which watches each of them separately."""
_FAST = {
    "FLEETWRIGHT_STALLED_SECONDS": "1.5",
    "FLEETWRIGHT_RETRY_CAP_SECONDS": "2",
    "FLEETWRIGHT_TOKEN_LEAD_SECONDS": "1",
    "FLEETWRIGHT_LOG_LEVEL": "WARNING",
}
_EARLY_STEPS = 5
"""Half of the steps. The kills of the early and the late steps run in separate processes, because they take longest."""
_NO_RESYNC = {"FLEETWRIGHT_RESYNC_SECONDS": "3600"}
"""The operator must repair the damage of an error or a kill without the periodic list."""
_ERRORS = {**_FAST, **_NO_RESYNC, "FLEETWRIGHT_REQUEST_SECONDS": "4", "FLEETWRIGHT_WORKERS": "32"}
_LOSSES = {**_FAST, "FLEETWRIGHT_RESYNC_SECONDS": "4"}
_KILLS = {**_FAST, **_NO_RESYNC, "FLEETWRIGHT_WORKERS": "64"}
"""As many workers as there may be blocked writes."""
_GATEWAY = {
    "FLEETWRIGHT_GATEWAY_URL": "http://gateway.example",
    "FLEETWRIGHT_GATEWAY_PUBLIC_URL": "https://agents.example.com",
    "FLEETWRIGHT_GATEWAY_PODS": '{"namespace": "gateway"}',
}


@dataclass(frozen=True)
class Order:
    """The cases of one process, and the reference for the comparison."""

    place: Place
    name: str
    steps: Steps
    references: References
    environment: Mapping[str, str]
    strict: bool = True
    confined: bool = False
    gateway: bool = False
    """True if the installation has a gateway."""


Work = Callable[[], Coroutine[Any, Any, Findings]]
"""The work of one process of the sweep. It must be picklable."""


async def sweep(plane: ControlPlane, place: Place, *, share: float = 1.0) -> Findings:
    """Run the sweep. With a `share` below one, run only every n-th case."""
    async with Client(place.server, place.token, place.ca, connections=64) as client:
        await install_crds(client)
        # The garbage collector learns of new kinds when it starts, and otherwise every 30 seconds.
        await asyncio.to_thread(plane.restart_controllers)
        async with WatchCache(client, kinds=("Agent", "Pod", "Approval")) as cache, Runtimes(cache) as runtimes:
            Kubelet(client, cache, address=runtimes.address)
            return await _dealt(place, every=max(1, round(1 / share)))


def _works(place: Place, references: References, *, every: int) -> list[Work]:
    """Return the work of each process.

    Kills are divided into two parts, because they take long but need little processor time.
    """
    wrong, lost, killed = (
        [sampled(step, every=every) for step in sort(references.steps)] for sort in (errors, losses, kills)
    )  # fmt: skip
    early, late = killed[:_EARLY_STEPS], [*([[]] * _EARLY_STEPS), *killed[_EARLY_STEPS:]]
    return [
        partial(_killed, Order(place, "early", early, references, _KILLS)),
        partial(_killed, Order(place, "late", late, references, _KILLS)),
        partial(_disturbed, Order(place, "error", wrong, references, _ERRORS, confined=True)),
        partial(_disturbed, Order(place, "lost", lost, references, _LOSSES, strict=False)),
    ]


def _team_works(place: Place, references: References, *, every: int) -> list[Work]:
    """Return the work of each process on the team behind a gateway. Most of its time is spent waiting for sleep.

    A sample of the sweep has half as many of these cases, because each step takes long.
    """
    every = every if every == 1 else 2 * every
    wrong, lost, killed = (
        [sampled(step, every=every) for step in sort(references.steps)] for sort in (errors, losses, kills)
    )  # fmt: skip
    return [
        partial(_killed, Order(place, "teamkill", killed, references, {**_KILLS, **_GATEWAY}, gateway=True)),
        partial(
            _disturbed,
            Order(place, "teamerror", wrong, references, {**_ERRORS, **_GATEWAY}, confined=True, gateway=True),
        ),
        partial(
            _disturbed, Order(place, "teamlost", lost, references, {**_LOSSES, **_GATEWAY}, strict=False, gateway=True)
        ),
    ]


async def _dealt(place: Place, *, every: int) -> Findings:
    whole, started = Findings(), time.monotonic()
    loop = asyncio.get_running_loop()
    processes = _WHOLE_PROCESSES if every == 1 else _PROCESSES
    context = multiprocessing.get_context("spawn")
    pool = ProcessPoolExecutor(processes, mp_context=context, initializer=_ignore_interrupts)
    try:

        async def judge(work: Work) -> None:
            part = await loop.run_in_executor(pool, carried_out, work)
            whole.verdicts += part.verdicts
            whole.complaints += part.complaints
            whole.restarts += part.restarts
            print(f"  {time.monotonic() - started:4.0f} s: {len(whole.verdicts)} cases judged", flush=True)

        async def judge_flow(name: str, flow: Flow, works: Callable[..., list[Work]]) -> None:
            references = await _reference(place, name, flow)
            await asyncio.gather(*map(judge, works(place, references, every=every)))

        # The cases of the keys need no reference.
        await asyncio.gather(
            judge(partial(keys_swept, place, "keys", _ERRORS, CARDS, every=every)),
            judge(partial(keys_swept, place, "gateway", {**_ERRORS, **_GATEWAY}, GATEWAY, every=every)),
            judge_flow("ref", OBJECTS, _works),
            judge_flow("teamref", TEAM, _team_works),
        )
    finally:
        # The pods of the other processes need this event loop until these processes end.
        await asyncio.to_thread(pool.shutdown, cancel_futures=True)
    return whole


def _ignore_interrupts() -> None:
    """Leave SIGINT, which a terminal sends to all processes, to the first process. The reaper of its run ends all."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def carried_out(work: Work) -> Findings:
    """Run the work in a separate process."""
    return asyncio.run(work())


async def _reference(place: Place, name: str, flow: Flow) -> References:
    """Return the reference of a flow.

    Raises:
        Disagreement: The namespaces of every attempt ended in different states.
    """
    for attempt in range(1, _ATTEMPTS):
        try:
            return await _reference_run(place, f"{name}{attempt}", flow)
        except Disagreement as disagreement:
            print(f"reference run {attempt} of {_ATTEMPTS}: {disagreement}", flush=True)
    return await _reference_run(place, f"{name}{_ATTEMPTS}", flow)


async def _reference_run(place: Place, name: str, flow: Flow) -> References:
    has_gateway = flow is TEAM
    spaces = [f"{name}-case-{number:03}" for number in range(_REFERENCES)]
    async with scene_of(place, name) as scene:
        installation = await install_release(scene.client, f"system-{name}", gateway=has_gateway)
        await asyncio.gather(*(make_namespace(scene.client, space) for space in spaces))
        environment = {**_ERRORS, **_GATEWAY} if has_gateway else _ERRORS
        async with OperatorGroup(scene, name, installation, environment):
            scene.open_cases.begin(spaces[0], f"the reference run {name}")
            references = await record(scene.client, scene.cache, scene.plan, spaces, flow)
            scene.open_cases.end(spaces[0])
    writes = sum(len(reference.writes) for reference in references.steps)
    print(f"reference: {len(references.steps)} steps of {writes} writes", flush=True)
    return references


async def _disturbed(order: Order) -> Findings:
    """Inject errors and lost events. Each namespace continues as soon as it can.

    A `confined` operator serves only its namespaces, by its settings and its permissions.
    """
    every = chains(order.name, order.steps)
    size = _CONFINED if order.confined else len(every)
    async with scene_of(order.place, order.name) as scene:
        for start in range(0, len(every), size):
            await _disturb_namespaces(order, scene, every[start : start + size], system=f"system-{order.name}-{start}")
        return scene.findings


async def _disturb_namespaces(order: Order, scene: Scene, going: Sequence[Chain], *, system: str) -> None:
    gate = asyncio.Semaphore(_AT_ONCE)
    confined = [chain.space for chain in going] if order.confined else []
    environment = {**order.environment, "FLEETWRIGHT_NAMESPACES": ",".join(confined)}
    verifier = Verifier(scene, order.references, strict=order.strict)
    await asyncio.gather(*(make_namespace(scene.client, space) for space in confined))
    installation = await install_release(scene.client, system, namespaces=confined, gateway=order.gateway)

    async def walk(chain: Chain) -> None:
        async with gate:
            well = await verifier.prepared(chain)
            for place in range(last_step(chain.steps) + 1):
                if well:
                    await verifier.act(chain, place)
                    well = await verifier.judged(chain, place)

    async with OperatorGroup(scene, order.name, installation, environment):
        await asyncio.gather(*map(walk, going))
        await verifier.look_again()


async def _killed(order: Order) -> Findings:
    """Inject kills. All namespaces take each step together, because a kill affects all of them."""
    going = chains(order.name, order.steps)
    async with scene_of(order.place, order.name) as scene:
        verifier = Verifier(scene, order.references)
        installation = await install_release(scene.client, f"system-{order.name}", gateway=order.gateway)
        async with OperatorGroup(scene, order.name, installation, order.environment) as operators:
            well = await asyncio.gather(*(verifier.prepared(chain) for chain in going))
            for place in range(last_step(order.steps) + 1):
                going = [chain for chain, good in zip(going, well, strict=True) if good]
                await asyncio.gather(*(verifier.act(chain, place) for chain in going))
                killed = await operators.kill_where_due({chain.space: chain.steps[place] for chain in going})
                well = await asyncio.gather(*(verifier.judged(chain, place, killed=killed) for chain in going))
            await verifier.look_again()
        return scene.findings
