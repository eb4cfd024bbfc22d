"""How the cases of a sweep are spread over namespaces, and what is said of each in the end. Pure."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from e2e.faults.plan import ERRORS, KILLS, Case, Fault
from e2e.faults.reference import StepReference

Steps = list[list[Case]]
"""The cases of each step."""


@dataclass(frozen=True)
class Chain:
    """One namespace's way through the steps, with one case for an object in each."""

    space: str
    steps: Steps


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
    return [[Case(fault, point) for point in step.writes for fault in ERRORS] for step in references]


def losses(references: Sequence[StepReference]) -> Steps:
    return [[Case(Fault.DROPPED, point) for point in step.events] for step in references]


def kills(references: Sequence[StepReference]) -> Steps:
    return [[Case(fault, point) for point in step.writes for fault in KILLS] for step in references]


def chains(name: str, steps: Sequence[Sequence[Case]]) -> list[Chain]:
    """The cases of each step spread over as few namespaces as they need: in each, one for an object."""
    spread = [_rounds(cases) for cases in steps]
    return [
        Chain(f"{name}-case-{number:03}", [list(cases or ()) for cases in step])
        for number, step in enumerate(zip_longest(*spread))
    ]


def _rounds(cases: Sequence[Case]) -> list[list[Case]]:
    by_subject: defaultdict[str, list[Case]] = defaultdict(list)
    for case in cases:
        by_subject[case.subject].append(case)
    return [[case for case in row if case] for row in zip_longest(*by_subject.values())]
