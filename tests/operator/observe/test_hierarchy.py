"""What an agent's place in its team means, for missing parents, cycles and suspended ancestors."""

import pytest

from fleetwright_api.fleet.hierarchy import MAX_DEPTH
from fleetwright_api.spec.agent import parse_agent
from fleetwright_operator.observe.hierarchy import ObservedHierarchy, observe_hierarchy


def agents(*rows):
    found = {}
    for name, parent, *spec in rows:
        fleet = {"parent": {"name": parent}} if parent else {}
        fields = {"model": {"name": "m"}, "fleet": fleet}
        for more in spec:
            fields |= {key: value for key, value in more.items() if key != "fleet"}
            fields["fleet"] |= more.get("fleet", {})
        view = parse_agent({"metadata": {"name": name, "namespace": "n"}, "spec": fields})
        assert view.problems == ()
        found[("n", name)] = view
    return found


TOGETHER = {"suspend": True, "fleet": {"suspendTeam": True}}


@pytest.mark.parametrize(
    ("rows", "wanted"),
    [
        pytest.param([("a", None)], ObservedHierarchy(), id="a root"),
        pytest.param([("a", "b"), ("b", None)], ObservedHierarchy(), id="a child"),
        pytest.param([("a", "b")], ObservedHierarchy(missing_parent="b"), id="a missing parent"),
        pytest.param([("a", "b"), ("b", "c")], ObservedHierarchy(), id="a missing grandparent"),
        pytest.param([("a", "a")], ObservedHierarchy(cycle=("a",)), id="its own parent"),
        pytest.param([("a", "b"), ("b", "a")], ObservedHierarchy(cycle=("a", "b")), id="a cycle"),
        pytest.param([("a", "b"), ("b", "c"), ("c", "b")], ObservedHierarchy(), id="below a cycle"),
        pytest.param([("a", "b"), ("b", None, {"suspend": True})], ObservedHierarchy(), id="a parent suspended alone"),
        pytest.param(
            [("a", "b"), ("b", None, {"fleet": {"suspendTeam": True}})], ObservedHierarchy(), id="a parent that runs"
        ),
        pytest.param(
            [("a", "b"), ("b", None, TOGETHER)], ObservedHierarchy(suspended_with="b"), id="a parent with its team"
        ),
        pytest.param(
            [("a", "b"), ("b", "c"), ("c", None, TOGETHER)], ObservedHierarchy(suspended_with="c"), id="a grandparent"
        ),
    ],
)
def test_observe_team(rows, wanted):
    found = agents(*rows)
    assert observe_hierarchy(found["n", "a"], found.get) == wanted


def test_observe_team_stops_at_the_greatest_depth():
    rows = [("a0", None, TOGETHER), *((f"a{n}", f"a{n - 1}") for n in range(1, MAX_DEPTH + 3))]
    found = agents(*rows)
    assert observe_hierarchy(found["n", f"a{MAX_DEPTH}"], found.get).suspended_with == "a0"
    assert observe_hierarchy(found["n", f"a{MAX_DEPTH + 1}"], found.get).suspended_with == ""
