"""Following the agents that replaced an agent."""

import pytest

from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.observe.successors import MAX_STEPS, ObservedSuccessors, observe_successors


def agents(rows):
    found = {}
    for name, successor in rows.items():
        fleet = {"forwardedTo": {"name": successor}} if successor else {}
        view = parse_agent(
            {"metadata": {"name": name, "namespace": "n"}, "spec": {"model": {"name": "m"}, "fleet": fleet}}
        )
        assert view.problems == ()
        found["n", name] = view
    return found


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        pytest.param({"a": None}, ObservedSuccessors(), id="not replaced"),
        pytest.param({"a": "b", "b": None}, ObservedSuccessors(), id="replaced"),
        pytest.param({"a": "b"}, ObservedSuccessors(missing="b"), id="a missing successor"),
        pytest.param({"a": "b", "b": "c"}, ObservedSuccessors(), id="the successor has a missing successor"),
        pytest.param({"a": "a"}, ObservedSuccessors(cycle=("a",)), id="itself"),
        pytest.param({"a": "b", "b": "c", "c": "a"}, ObservedSuccessors(cycle=("a", "b", "c")), id="a cycle"),
        pytest.param({"a": "b", "b": "c", "c": "b"}, ObservedSuccessors(), id="before a cycle"),
    ],
)
def test_observe_successors(rows, wanted):
    found = agents(rows)
    assert observe_successors(found["n", "a"], found.get) == wanted


def test_observe_successors_ends_after_the_greatest_number_of_steps():
    found = agents({f"a{n}": f"a{n + 1}" for n in range(MAX_STEPS + 2)})
    assert observe_successors(found["n", "a0"], found.get) == ObservedSuccessors()
