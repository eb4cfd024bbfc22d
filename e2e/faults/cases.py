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
"""Cases of one write or event: it meets the first, and each time that it comes again the next."""
Steps = list[list[Burst]]
"""The bursts of faults of each step."""
_Any = TypeVar("_Any")


@dataclass(frozen=True)
class Chain:
    """One namespace's way through the steps, with one burst for an object in each."""

    space: str
    steps: list[list[Case]]


@dataclass(frozen=True)
class Verdict:
    step: str
    case: Case
    space: str
    struck: bool
    problem: str
    """Empty when it converged."""


@dataclass
class Findings:
    verdicts: list[Verdict] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    """What is wrong whatever the case."""
    restarts: int = 0
    """How often an operator ended by itself, as it does when it cannot renew its Lease in time."""


def errors(references: Sequence[StepReference]) -> Steps:
    return [[burst for turn, point in enumerate(step.writes) for burst in _bursts(point, turn)] for step in references]


def losses(references: Sequence[StepReference]) -> Steps:
    return [[(Case(Fault.DROPPED, point),) for point in step.events] for step in references]


def kills(references: Sequence[StepReference]) -> Steps:
    return [[tuple(Case(fault, point) for fault in KILLS) for point in step.writes] for step in references]


def sampled(whole: Sequence[_Any], *, every: int) -> list[_Any]:
    """One of so many, and one at least: scattered, so that it is not always the same sort, and the same each time."""
    return list(whole) if every == 1 else random.Random(every).sample(whole, -(-len(whole) // every))


def last_step(steps: Sequence[Sequence[object]]) -> int:
    """The place of the last that anything befalls."""
    return max(place for place, cases in enumerate(steps) if cases)


def chains(name: str, steps: Sequence[Sequence[Burst]]) -> list[Chain]:
    """The bursts of each step spread over as few namespaces as they need: in each, one for an object."""
    spread = [_rounds(cases) for cases in steps]
    return [
        Chain(f"{name}-case-{number:03}", [list(cases or ()) for cases in step])
        for number, step in enumerate(zip_longest(*spread))
    ]


def _bursts(point: Point, turn: int) -> list[Burst]:
    """Return every error of one write. The operator repeats a refused write, so the next error meets it again.

    Which of them is the last, and followed by a write that succeeds, changes from turn to turn. A write that was done
    and never answered need not come again: that one is alone.
    """
    turned = (*UNDONE[turn % len(UNDONE) :], *UNDONE[: turn % len(UNDONE)])
    bursts = (turned[:_IN_A_ROW], turned[_IN_A_ROW:], (Fault.TIMEOUT,))
    return [tuple(Case(fault, point) for fault in burst) for burst in bursts]


def _rounds(bursts: Sequence[Burst]) -> list[list[Case]]:
    by_subject: defaultdict[str, list[Burst]] = defaultdict(list)
    for burst in bursts:
        by_subject[burst[0].subject].append(burst)
    return [[case for burst in row if burst for case in burst] for row in zip_longest(*by_subject.values())]
