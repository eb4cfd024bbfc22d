"""The reference run without faults: the result of each step, its writes and events, and the number of writes.

Several namespaces go through the reference run. Writes that do not occur in all of them are random, and no case uses
them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import zip_longest

from e2e.control_plane.client import Client
from e2e.control_plane.normalised_state import NormalisedState, Reader
from e2e.control_plane.watch_cache import WatchCache
from e2e.faults.flows import Flow, Step
from e2e.faults.plan import Plan, Point
from e2e.faults.settling import settled
from tests.support.machine import ceiling

_QUIET_SECONDS = 1.0
_AGREEMENT_SECONDS = 6.0
"""The promised duration until all namespaces are settled in the same state."""


@dataclass(frozen=True)
class StepReference:
    step: Step
    state: NormalisedState
    loose_state: NormalisedState
    """The state without the number of edits, except those of Deployments."""
    writes: tuple[Point, ...]
    events: tuple[Point, ...]
    most_writes: int


@dataclass(frozen=True)
class References:
    prepared: StepReference
    steps: tuple[StepReference, ...]


class Disagreement(Exception):  # noqa: N818 - what two runs are in
    """Two reference runs ended in different states."""


def loose_reader() -> Reader:
    """Return a reader that ignores generations, except of Deployments: each new generation of a Deployment replaces a
    pod.
    """
    return Reader(generations=("Deployment",))


async def record(client: Client, watch_cache: WatchCache, plan: Plan, spaces: Sequence[str], flow: Flow) -> References:
    """Take all namespaces through every step at the same time, and record each step."""
    recorded = []
    for step in (flow.prepare, *flow.steps):
        for space in spaces:
            plan.begin(space)
        await asyncio.gather(*(step.act(client, space) for space in spaces))
        await _agree(watch_cache, plan, spaces, step)
        recorded.append(_reference(watch_cache, plan, spaces, step))
    return References(recorded[0], tuple(recorded[1:]))


async def _agree(watch_cache: WatchCache, plan: Plan, spaces: Sequence[str], step: Step) -> None:
    """Wait until all namespaces are settled in the same state.

    An operator on a busy machine may pause between two writes for longer than a settled namespace is observed.

    Raises:
        Disagreement: The states still differ after `ceiling(_AGREEMENT_SECONDS)`.
    """
    reader, clock = Reader(), asyncio.get_running_loop().time
    deadline = clock() + ceiling(_AGREEMENT_SECONDS)
    while True:
        await asyncio.gather(*(_settle(watch_cache, plan, space, step) for space in spaces))
        first, *others = (reader.read(watch_cache.objects(space).values(), namespace=space) for space in spaces)
        other = next((other for other in others if other != first), None)
        if other is None:
            return
        if clock() > deadline:
            raise Disagreement(f"{step.name}:\n{difference(first, other)}")


async def _settle(watch_cache: WatchCache, plan: Plan, space: str, step: Step) -> None:
    """Wait until the namespace is settled and does not change for a while."""

    def rests() -> bool:
        return not settled(watch_cache.objects(space).values())

    async with asyncio.timeout(ceiling()):
        before = None
        while True:
            if not await watch_cache.until(space, rests, seconds=ceiling()):
                raise TimeoutError(f"{step.name}: {settled(watch_cache.objects(space).values())}")
            versions = {key: body["metadata"]["resourceVersion"] for key, body in watch_cache.objects(space).items()}
            now = (versions, plan.total_writes(space))
            if now == before:
                return
            before = now
            await asyncio.sleep(_QUIET_SECONDS)


def _reference(watch_cache: WatchCache, plan: Plan, spaces: Sequence[str], step: Step) -> StepReference:
    space = spaces[0]
    objects = watch_cache.objects(space).values()
    return StepReference(
        step=step,
        state=Reader().read(objects, namespace=space),
        loose_state=loose_reader().read(objects, namespace=space),
        writes=_points([plan.writes[space] for space in spaces]),
        events=_points([plan.events[space] for space in spaces]),
        most_writes=max(plan.total_writes(space) for space in spaces),
    )


def difference(wanted: NormalisedState, found: NormalisedState, *, lines: int = 12) -> str:
    """Return the lines around the first difference. A complete comparison would take seconds."""
    one, other = wanted.text.splitlines(), found.text.splitlines()
    pairs = zip_longest(one, other)
    first = next((place for place, (left, right) in enumerate(pairs) if left != right), 0)
    start = max(0, first - 6)
    shown = slice(start, first + lines)
    return "\n".join([*(f"- {line}" for line in one[shown]), *(f"+ {line}" for line in other[shown])])


def _points(counters: Sequence[Counter[str]]) -> tuple[Point, ...]:
    """Return the points that occurred in every run."""
    common = reduce(lambda one, other: one & other, counters)
    return tuple((name, number) for name in sorted(common) for number in range(1, common[name] + 1))
