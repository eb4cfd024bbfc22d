"""The fault plan of the sweep: the faults of each write, by namespace, and their order."""

from collections import Counter

import pytest
from e2e.control_plane.normalised_state import NormalisedState
from e2e.faults.cases import chains, errors, kills, sampled
from e2e.faults.flows import OBJECTS
from e2e.faults.plan import ERRORS, KILLS, UNDONE, Case, Fault, Plan, Point
from e2e.faults.reference import StepReference

WRITES = (
    ("apply agents/poet/status", 1),
    ("apply agents/poet/status", 2),
    ("apply deployments/poet", 1),
    ("apply skills/haiku/status", 1),
)


def step(writes: tuple[Point, ...] = WRITES) -> StepReference:
    nothing = NormalisedState([])
    return StepReference(OBJECTS.prepare, nothing, nothing, writes, events=(), most_writes=len(writes))


@pytest.mark.parametrize(("sort", "faults"), [(errors, ERRORS), (kills, KILLS)], ids=["every error", "both kills"])
def test_chains_cover_each_write_and_fault_once(sort, faults):
    """Each write meets each fault once, and a namespace holds one burst per object."""
    bursts = sort([step()])[0]
    dealt = [chain.steps[0] for chain in chains("x", [bursts])]
    wanted = {Case(fault, point): 1 for point in WRITES for fault in faults}
    assert Counter(case for cases in dealt for case in cases) == wanted
    for cases in dealt:
        of_each = {case.subject: tuple(other for other in cases if other.subject == case.subject) for case in cases}
        assert set(of_each.values()) <= set(bursts)


@pytest.mark.parametrize("sort", [errors, kills], ids=["errors", "kills"])
def test_bursts_continue_only_after_writes_that_failed(sort):
    for burst in sort([step()])[0]:
        assert all(case.fault in {*UNDONE, Fault.KILLED_BEFORE} for case in burst[:-1])


@pytest.mark.parametrize("every", [2, 3, 4, 5, 9, 10])
def test_sampled_cases_include_every_fault(every):
    writes = tuple((f"apply deployments/poet-{number}", 1) for number in range(40))
    bursts = errors([step(writes)])[0]
    share = sampled(bursts, every=every)
    assert len(share) == -(-len(bursts) // every)
    assert {case.fault for burst in share for case in burst} == set(ERRORS)


def test_plan_applies_a_burst_to_a_write_and_its_retries():
    plan = Plan()
    name = "apply deployments/poet"
    plan.begin("shop", [Case(fault, (name, 2)) for fault in (Fault.CONFLICT, Fault.INTERNAL)])
    met = [plan.on_write("shop", name) for _ in range(4)]
    assert met == [None, Fault.CONFLICT, Fault.INTERNAL, None]
    assert (len(plan.struck["shop"]), list(plan.due("shop"))) == (2, [])


def test_plan_keeps_remaining_faults_for_the_same_write_only():
    plan = Plan()
    plan.begin("shop", [Case(fault, ("apply deployments/poet", 1)) for fault in KILLS])
    assert plan.on_write("shop", "apply deployments/poet") is Fault.KILLED_BEFORE
    assert plan.on_write("shop", "apply services/poet") is None
    assert list(plan.due("shop")) == [("apply deployments/poet", 2)]
    plan.withdraw("shop")
    assert plan.on_write("shop", "apply deployments/poet") is None
