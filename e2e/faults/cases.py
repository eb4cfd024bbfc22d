"""Distribute the cases of a sweep over namespaces, and report the result of each. Pure."""

import random
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import TypeVar

from e2e.faults.plan import KILLS, UNDONE, Case, Fault, Point
from e2e.faults.reference import StepReference

_IN_A_ROW = 3
Burst = tuple[Case, ...]
"""Successive cases of one write or event: the first case affects the first occurrence, the next case the next
occurrence.
"""
Steps = list[list[Burst]]
"""The bursts of faults of each step."""
_Any = TypeVar("_Any")


@dataclass(frozen=True)
class Chain:
    """The path of one namespace through the steps. Each step has at most one burst for each object."""

    space: str
    steps: list[list[Case]]


@dataclass(frozen=True)
class Verdict:
    step: str
    case: Case
    space: str
    struck: bool
    problem: str
    """The deviation from the reference; empty if the namespace converged."""


@dataclass
class Findings:
    verdicts: list[Verdict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """Problems that belong to no single case."""
    restarts: int = 0
    """The number of operators that exited by themselves, as an operator does when it cannot renew its Lease in time."""


def errors(references: Sequence[StepReference]) -> Steps:
    return [[burst for turn, point in enumerate(step.writes) for burst in _bursts(point, turn)] for step in references]


def losses(references: Sequence[StepReference]) -> Steps:
    return [[(Case(Fault.DROPPED, point),) for point in step.events] for step in references]


def kills(references: Sequence[StepReference]) -> Steps:
    return [[tuple(Case(fault, point) for fault in KILLS) for point in step.writes] for step in references]


def sampled(whole: Sequence[_Any], *, every: int) -> list[_Any]:
    """Return every n-th item in number, at least one.

    The selection is random but the same in each run, so it mixes all sorts.
    """
    return list(whole) if every == 1 else random.Random(every).sample(whole, -(-len(whole) // every))


def last_step(steps: Sequence[Sequence[object]]) -> int:
    """Return the index of the last step that has a case."""
    return max(place for place, cases in enumerate(steps) if cases)


def chains(name: str, steps: Sequence[Sequence[Burst]]) -> list[Chain]:
    """Distribute the bursts of each step over as few namespaces as possible.

    A namespace has one burst for each object.
    """
    spread = [_rounds(cases) for cases in steps]
    return [
        Chain(f"{name}-case-{number:03}", [list(cases or ()) for cases in step])
        for number, step in enumerate(zip_longest(*spread))
    ]


def _bursts(point: Point, turn: int) -> list[Burst]:
    """Return every error of one write. The operator repeats a refused write, so the next error affects the repetition.

    The order of the errors changes from point to point, so that each error is at times the last before a successful
    write. The operator need not repeat a write that was executed but not answered; that error is therefore alone in its
    burst.
    """
    turned = (*UNDONE[turn % len(UNDONE) :], *UNDONE[: turn % len(UNDONE)])
    bursts = (turned[:_IN_A_ROW], turned[_IN_A_ROW:], (Fault.TIMEOUT,))
    return [tuple(Case(fault, point) for fault in burst) for burst in bursts]


def _rounds(bursts: Sequence[Burst]) -> list[list[Case]]:
    by_subject: defaultdict[str, list[Burst]] = defaultdict(list)
    for burst in bursts:
        by_subject[burst[0].subject].append(burst)
    return [[case for burst in row if burst for case in burst] for row in zip_longest(*by_subject.values())]
