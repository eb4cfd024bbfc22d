"""The measures of `make bench-operator`. Each takes a stage and returns rows.

Pairs are interleaved, and the rows hold medians.
"""

import asyncio
import signal
import statistics
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from e2e.cluster.progress import CannotRun
from e2e.control_plane.process import OperatorProcess
from tests.bench.parts import Part
from tests.bench.stage import ASLEEP, FEW, LONGEST_SECONDS, OURS, Stage
from tests.bench.table import Row
from tests.support.machine import machine_factor

_CHILD_KINDS = (
    "ServiceAccount",
    "Service",
    "NetworkPolicy",
    "Deployment",
    "Secret",
    "ConfigMap",
    "PersistentVolumeClaim",
)
_SLEEP = {"since": "2026-01-01T00:00:00Z"}
_GATEWAY = {
    "FLEETWRIGHT_GATEWAY_URL": "http://gateway.example",
    "FLEETWRIGHT_GATEWAY_PODS": '{"namespace": "fleetwright-system"}',
}
"""An agent sleeps only in an installation with a gateway."""
_CHILDREN = 11
"""Objects that the operator keeps of one Agent: the Agent and its children."""


async def latency(stage: Stage, *, agents: int = 100, pairs: int = 3, rate: float = 10.0) -> list[Row]:
    """Measure the time from an Agent's creation to Programmed for that generation, at a steady rate of Agents."""
    operator = stage.operator("latency")
    await operator.started()
    ours: list[float] = []
    bare: list[float] = []
    before = operator.cpu_seconds()
    cpu = 0.0
    for pair in range(pairs):
        took, _ = await stage.create([f"paced-{pair}-{number:05}" for number in range(agents)], rate=rate)
        ours += took
        answer = await stage.bare(f"paced-{pair}", agents, rate=rate)
        bare += answer["took"]
        cpu += answer["cpu"]
    mine = operator.cpu_seconds() - before
    await operator.stop()
    number = agents * pairs
    return [
        Row("created at 10/s to Programmed, p50", _ms(ours, 50), "ms", 2, _ms(bare, 50)),
        Row("created at 10/s to Programmed, p99", _ms(ours, 99), "ms", 5, _ms(bare, 99)),
        Row("CPU for an Agent, paced", 1000 * mine / number, "ms", reference=1000 * cpu / number),
    ]


async def alone(stage: Stage, *, agents: int = 30, pause: float = 0.4) -> list[Row]:
    """Measure the time from an Agent's creation to its Deployment, when the operator is otherwise idle."""
    operator = stage.operator("alone")
    await operator.started()
    names = [f"alone-{number:03}" for number in range(agents)]
    before, began = operator.cpu_seconds(), time.monotonic()
    ours = [await stage.deployed(name, pause=pause) for name in names]
    seconds = time.monotonic() - began
    await _until(lambda: _at_rest(operator), pause=0.1)
    cpu = operator.cpu_seconds() - before
    bare = await stage.bare("alone", agents, rate=1 / pause)
    await operator.stop()
    return [
        Row("an Agent alone, to its Deployment, p50", _ms(ours, 50), "ms", reference=_ms(bare["deployed"], 50)),
        Row("an Agent alone, to its Deployment, p90", _ms(ours, 90), "ms", reference=_ms(bare["deployed"], 90)),
        Row("an Agent alone, to its Deployment, least", 1000 * min(ours), "ms",
            reference=1000 * min(bare["deployed"])),
        Row("CPU for an Agent alone", 1000 * cpu / agents, "ms", reference=1000 * bare["cpu"] / agents,
            detail=f"one each {seconds / agents:.1f} s"),
    ]  # fmt: skip


async def hundred(stage: Stage, *, agents: int = 100, rounds: int = 5) -> list[Row]:
    """Create a hundred Agents at once, several times.

    The rows hold the medians, and the minima, which other programs on the machine disturb least.
    """
    operator = stage.operator("hundred")
    await operator.started()
    ours: list[float] = []
    bare: list[float] = []
    cpu: list[float] = []
    reference: list[float] = []
    for number in range(rounds):
        before = operator.cpu_seconds()
        _, seconds = await stage.create([f"hundred-{number}-{place:03}" for place in range(agents)])
        await _until(lambda: _at_rest(operator), pause=0.1)
        cpu.append((operator.cpu_seconds() - before) / agents)
        ours.append(seconds)
        answer = await stage.bare(f"hundred-{number}", agents)
        bare.append(answer["seconds"])
        reference.append(answer["cpu"] / agents)
    await operator.stop()
    return [
        Row(f"{agents} at once", statistics.median(ours), "s", reference=statistics.median(bare)),
        Row(f"{agents} at once, least", min(ours), "s", reference=min(bare)),
        Row(f"{agents} at once, CPU for an Agent", _ms(cpu, 50), "ms", reference=_ms(reference, 50)),
        Row(f"{agents} at once, CPU for an Agent, least", 1000 * min(cpu), "ms", reference=1000 * min(reference)),
    ]


async def ceilings(stage: Stage, *, number: int = 2000) -> list[Row]:
    """Measure the maximum rate of the bare client."""
    answer = await stage.bare("ceiling", 0, ceiling=number)
    return [
        Row("ceiling of the bare client, small applies", answer["rate"], "/s", is_reference=True),
        Row("CPU of the bare client for one", 1000 * answer["cpu"] / number, "ms", is_reference=True),
    ]


async def burst(stage: Stage, *, agents: int = 1000, many: int = 10_000) -> list[Row]:
    """Create, edit and delete all Agents at once. With `many`, also create ten times as many.

    The rate counts only the writes that the bare client makes too. Additional writes would make the operator look
    faster.
    """
    operator = stage.operator("burst")
    await operator.started()
    before, writes = operator.cpu_seconds(), await _written(operator)
    names = [f"burst-{number:05}" for number in range(agents)]
    _, seconds = await stage.create(names)
    cpu = operator.cpu_seconds() - before
    written = await _written(operator) - writes
    bare = await stage.bare("burst", agents)
    rows = [
        Row(f"burst of {agents}, writes a second", agents * (stage.writes_per_agent + 1) / seconds, "/s", 0.6,
            (bare["writes"] + agents) / bare["seconds"], at_least=True),
        Row(f"burst of {agents}, CPU for an Agent", 1000 * cpu / agents, "ms", reference=1000 * bare["cpu"] / agents),
        Row(f"burst of {agents}, Agents a second", agents / seconds, "/s"),
        Row("writes for an Agent", written / agents, "", 1.0, float(stage.writes_per_agent)),
        Row("GETs for an Agent", float(stage.gets_per_agent), "", 0),
        *await _wave(operator, f"{agents} edited at once", agents, lambda: stage.edit_all(names, "Edited at once.")),
        *await _wave(operator, f"{agents} deleted at once", agents, lambda: stage.delete_all(names)),
    ]  # fmt: skip
    # Otherwise the cache holds orphans, which no figure counts.
    await _until(lambda: _swept(stage, "burst-"), pause=0.5)
    if many:
        passes, cpu = await operator.total("fleetwright_reconcile_total"), operator.cpu_seconds()
        _, longer = await stage.create([f"many-{number:05}" for number in range(many)])
        passes = await operator.total("fleetwright_reconcile_total") - passes
        rows.append(Row(f"burst of {many}, passes for an Agent", passes / many, ""))
        rows.append(Row(f"burst of {many}, CPU for an Agent", 1000 * (operator.cpu_seconds() - cpu) / many, "ms"))
        rows.append(Row(f"burst of {many}, seconds, beside {agents}", longer, "s", 12 * many / (10 * agents), seconds))
    await operator.stop()
    return rows


async def _written(operator: OperatorProcess) -> float:
    """Return the number of writes without Events. The bare client creates no Events."""
    counted = await operator.metrics()
    events = 'kind="Event"'
    return sum(
        value for key, value in counted.items() if key.startswith("fleetwright_api_writes_total{") and events not in key
    )


async def _wave(operator: OperatorProcess, what: str, number: int, act: Callable[[], Awaitable[object]]) -> list[Row]:
    """Measure the duration of a wave, and the operator's processor time for each Agent."""
    cpu, written = operator.cpu_seconds(), await _written(operator)
    seconds = await _timed(act)
    await _until(lambda: _at_rest(operator), pause=0.1)
    written = await _written(operator) - written
    return [
        Row(what, seconds, "s"),
        Row(f"{what}, writes for an Agent", written / number, ""),
        Row(f"{what}, CPU for an Agent", 1000 * (operator.cpu_seconds() - cpu) / number, "ms"),
    ]


async def floor(stage: Stage, *, agents: int = 1000, many: int = 10_000) -> list[Row]:
    """Measure the large burst on an idle API server: the bare client's writes, with no other watches or writes.

    The figure is not flat, because the API server counts all allocated addresses for every Service.
    """
    if not many:
        raise CannotRun("it is left out with --many 0")
    few = await stage.bare("few", agents)
    whole = await stage.bare("many", many)
    name = f"the bare client's burst of {many}, seconds, beside {agents}"
    return [Row(name, whole["seconds"], "s", reference=few["seconds"], is_reference=True)]


async def rest(stage: Stage, *, least: int = 500, resync: int = 8) -> list[Row]:
    """Measure a resync without changes, a restart, and a restart with an edit while the operator works through its
    backlog.

    The operator caches at least this many Agents. `resync` is the number of seconds between two resyncs.
    """
    objects = await _cached(stage, least)
    shares = objects / 5000
    resyncing = stage.operator("resync", FLEETWRIGHT_RESYNC_SECONDS=str(resync))
    await resyncing.started()
    passes = await resyncing.total("fleetwright_reconcile_total") + 2 * objects / _CHILDREN
    await _until(lambda: _passed(resyncing, passes), pause=1.0)
    resync_writes = await resyncing.total("fleetwright_api_writes_total")
    exit_seconds = await _timed(resyncing.stop)

    restarted = stage.operator("restart")
    started = time.monotonic()
    restarted.start()
    await restarted.leading(pause=0.02, seconds=LONGEST_SECONDS * machine_factor())
    await _until(lambda: _at_rest(restarted), pause=0.02)
    steady = time.monotonic() - started
    await asyncio.sleep(3)
    restart_writes, memory = await restarted.total("fleetwright_api_writes_total"), restarted.memory_mb()
    await restarted.stop()

    edited = stage.operator("edited")
    edited.start()
    await edited.leading(pause=0.02, seconds=LONGEST_SECONDS * machine_factor())
    edit_seconds = await stage.edit(_some_agent(stage), f"Edited at {time.time()}.")
    await edited.stop()
    idle = await _idle_memory(stage)
    return [
        Row("writes in resyncs that find nothing", resync_writes, "", 0),
        Row("writes in a restart", restart_writes, "", 0),
        Row("restart to steady, for 5,000 objects", steady / max(1.0, shares), "s", 3, detail=f"{objects} cached"),
        Row("a fresh edit during it, served", edit_seconds, "s", 1),
        Row("SIGTERM to exit", exit_seconds, "s", 1),
        Row("memory, idle", idle, "MB", 60),
        Row("memory for 5,000 objects", (memory - idle) / shares, "MB", 25, is_difference=True,
            detail=f"{objects} cached"),
    ]  # fmt: skip


async def asleep(stage: Stage, *, agents: int = 1000, resync: int = 8, quiet: float = 10.0) -> list[Row]:
    """Measure the writes of two resyncs and of a restart in a fleet of which half sleeps."""
    where = {"FLEETWRIGHT_NAMESPACES": ASLEEP, **_GATEWAY}
    names = [f"sleeper-{number:04}" for number in range(agents)]
    operator = stage.operator("sleepers", **where)
    await operator.started()
    await stage.create(names, space=ASLEEP, sleep={"afterIdle": "15m"})
    await operator.stop()
    # Nothing runs pods here, so no agent reports that it is idle. These are the writes of an operator that heard so.
    for name in names[::2]:
        await stage.client.merge("Deployment", ASLEEP, name, {"spec": {"replicas": 0}})
        await stage.client.merge("Agent", ASLEEP, name, {"status": {"sleep": _SLEEP}}, subresource="/status")

    resyncing = stage.operator("asleep", **where, FLEETWRIGHT_RESYNC_SECONDS=str(resync))
    await resyncing.started()
    await _until(lambda: _sleeping(stage, agents // 2), pause=0.5)
    # The operator spreads its Events over time. They belong to the transition, and not to the rest after it.
    await _until(lambda: _writes_nothing(resyncing, seconds=quiet), pause=0.5)
    before = await resyncing.total("fleetwright_api_writes_total")
    passes = await resyncing.total("fleetwright_reconcile_total") + 2 * agents
    await _until(lambda: _passed(resyncing, passes), pause=1.0)
    resync_writes = await resyncing.total("fleetwright_api_writes_total") - before
    await resyncing.stop()

    restarted = stage.operator("asleep-again", **where)
    await restarted.started()
    await _until(lambda: _passed(restarted, agents), pause=0.5)
    restart_writes = await restarted.total("fleetwright_api_writes_total")
    await restarted.stop()
    return [
        Row(f"writes in two resyncs with {agents} agents, half of them asleep", resync_writes, "", 0),
        Row("writes in a restart of this operator", restart_writes, "", 0),
    ]


async def failover(stage: Stage, *, agents: int = 100) -> list[Row]:
    """Measure the time from the end of the leader to an edit served by the standby, which lists everything first."""
    few = {"FLEETWRIGHT_NAMESPACES": FEW}
    rows = []
    for how, name, bar in ((signal.SIGTERM, "given back", 3.0), (signal.SIGKILL, "killed", 17.0)):
        first, second = stage.operator(f"first-{how.name}", **few), stage.operator(f"second-{how.name}", **few)
        await first.started()
        await stage.create([f"{how.name.lower()}-{number:03}" for number in range(agents)], space=FEW)
        second.start()
        await _until(lambda: _ready(second), pause=0.1)  # noqa: B023 - awaited at once
        began = time.monotonic()
        first.send(how)
        await stage.edit(f"{how.name.lower()}-000", f"Edited at {time.time()}.", space=FEW)
        measure = f"failover of {agents} Agents, leader {name}, to an edit served"
        rows.append(Row(measure, time.monotonic() - began, "s", bar))
        await first.stop(signal.SIGKILL)
        await second.stop()
    return rows


async def churn(stage: Stage, *, seconds: float = 600.0, agents: int = 10) -> list[Row]:
    """Create, change and delete Agents, and compare the memory of the second half with that of the first."""
    operator = stage.operator("churn")
    await operator.started()
    samples: list[float] = []
    started, number = time.monotonic(), 0
    while time.monotonic() - started < seconds or len(samples) < _FEWEST_SAMPLES:
        names = [f"churn-{number}-{place}" for place in range(agents)]
        await stage.create(names)
        await asyncio.gather(*(stage.edit(name, f"Round {number}.") for name in names))
        await asyncio.gather(*(stage.client.delete("Agent", OURS, name) for name in names))
        await _swept(stage, "churn-")
        samples.append(operator.memory_mb())
        number += 1
    await _until(lambda: _swept(stage, "churn-"), pause=0.5)
    await operator.stop()
    settled = samples[len(samples) // 5 :]
    half = len(settled) // 2
    grown = statistics.median(settled[half:]) - statistics.median(settled[:half])
    return [
        Row(f"memory grown in {seconds:.0f} s of churn", grown, "MB", 2.0, is_difference=True,
            detail=f"{agents * number} Agents came and went"),
        Row("memory under churn", statistics.median(settled), "MB"),
    ]  # fmt: skip


_FEWEST_SAMPLES = 4
"""Each half of the samples needs some."""


async def _swept(stage: Stage, prefix: str) -> bool:
    """Delete the orphans of the Agents with this prefix. No garbage collector runs here.

    Return True if there were no orphans left. The cache would grow legitimately with any orphan: the operator may
    create a child again between the child's deletion and that of its Agent.
    """
    clean = True
    for kind in _CHILD_KINDS:
        listing = await stage.client.list(kind, OURS)
        gone = [item["metadata"]["name"] for item in listing["items"] if _is_of(item, prefix)]
        clean = clean and not gone
        if kind == "PersistentVolumeClaim":  # The controller that removes this finalizer does not run here either.
            unprotected = {"metadata": {"finalizers": None}}
            await asyncio.gather(*(stage.client.merge(kind, OURS, name, unprotected) for name in gone))
        await asyncio.gather(*(stage.client.delete(kind, OURS, name) for name in gone))
    return clean


def _is_of(item: Mapping[str, Any], prefix: str) -> bool:
    return str(item["metadata"].get("labels", {}).get("fleetwright.dev/agent", "")).startswith(prefix)


async def _sleeping(stage: Stage, wanted: int) -> bool:
    found = stage.cache.objects(ASLEEP)
    phases = [body.get("status", {}).get("phase") for (kind, _), body in found.items() if kind == "Agent"]
    return phases.count("Asleep") == wanted


async def _cached(stage: Stage, least: int) -> int:
    """Return how many objects an operator caches. Create Agents first if there are fewer than `least`."""
    present = len(stage.cache.objects(OURS))
    if present < least:
        operator = stage.operator("filling")
        await operator.started()
        await stage.create([f"filled-{number:05}" for number in range(least - present)])
        await operator.stop()
    return len(stage.cache.objects(OURS)) * _CHILDREN


def _some_agent(stage: Stage) -> str:
    return next(name for kind, name in stage.cache.objects(OURS) if kind == "Agent")


async def _at_rest(operator: OperatorProcess) -> bool:
    return (await operator.metrics())["fleetwright_queue_depth"] == 0


async def _writes_nothing(operator: OperatorProcess, *, seconds: float) -> bool:
    before = await operator.total("fleetwright_api_writes_total")
    await asyncio.sleep(seconds)
    return await _at_rest(operator) and await operator.total("fleetwright_api_writes_total") == before


async def _passed(operator: OperatorProcess, passes: float) -> bool:
    return await operator.total("fleetwright_reconcile_total") >= passes and await _at_rest(operator)


async def _ready(operator: OperatorProcess) -> bool:
    return await operator.ask("/readyz") == "ok"


async def _until(holds: Callable[[], Awaitable[bool]], *, pause: float) -> None:
    """Wait for a condition. Thousands of Agents take longer than the waits of tests allow."""
    async with asyncio.timeout(LONGEST_SECONDS * machine_factor()):
        while True:
            if await holds():
                return
            await asyncio.sleep(pause)


async def _idle_memory(stage: Stage) -> float:
    operator = stage.operator("idle", FLEETWRIGHT_NAMESPACES="default")
    await operator.started()
    await asyncio.sleep(3)
    memory = operator.memory_mb()
    await operator.stop()
    return memory


async def _timed(act: Callable[[], Awaitable[object]]) -> float:
    began = time.monotonic()
    await act()
    return time.monotonic() - began


def _ms(samples: list[float], percent: int) -> float:
    return 1000 * sorted(samples)[min(len(samples) - 1, len(samples) * percent // 100)]


PARTS = {
    "ceilings": Part(ceilings, {"number": 20}),
    "alone": Part(alone, {"agents": 2}),
    "hundred": Part(hundred, {"agents": 3, "rounds": 1}),
    "latency": Part(latency, {"agents": 3, "pairs": 1}),
    "burst": Part(burst, {"agents": 4, "many": 8}),
    "floor": Part(floor, {"agents": 4, "many": 8}),
    "rest": Part(rest, {"least": 20, "resync": 2}),
    "asleep": Part(asleep, {"agents": 4, "resync": 2, "quiet": 2.0}),
    "failover": Part(failover, {"agents": 2}),
    "churn": Part(churn, {"seconds": 1.0, "agents": 2}),
}
