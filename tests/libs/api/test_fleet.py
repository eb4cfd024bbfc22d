"""The hierarchy and the rule about who may communicate, as tables and as properties."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.support.examples import count_examples

from fleetwright_api.fleet.communication import colleagues, communication_reason, may_communicate
from fleetwright_api.fleet.hierarchy import MAX_DEPTH, ancestors, children_of, descendants, is_in_cycle
from fleetwright_api.spec.agent import parse_agent


def fleet(*rows):
    """Return agents from rows of name, parent and reach; a name may have a namespace."""
    agents = {}
    for name, parent, reach, *more in rows:
        namespace, _, own = name.rpartition("/")
        spec = {"model": {"name": "m"}, "fleet": {"reach": reach}}
        if parent:
            spec["fleet"]["parent"] = {"name": parent}
        spec |= more[0] if more else {}
        view = parse_agent({"metadata": {"name": own, "namespace": namespace or "here"}, "spec": spec})
        assert view.problems == ()
        agents[(view.namespace, view.name)] = view
    return agents


#       lead                 other
#      /    \
#   one      two
#    |
#  below
TEAM = [("lead", None), ("one", "lead"), ("two", "lead"), ("below", "one"), ("other", None)]


def team(reach):
    return fleet(*((name, parent, reach) for name, parent in TEAM))


PAIRS = [
    # caller, callee, allowed with Direct, allowed with Lineage
    ("lead", "lead", True, True),
    ("lead", "one", True, True),
    ("one", "lead", True, True),
    ("one", "two", True, True),
    ("lead", "other", True, True),
    ("below", "one", True, True),
    ("lead", "below", False, True),
    ("below", "lead", False, True),
    ("below", "two", False, False),
    ("two", "below", False, False),
    ("other", "one", False, False),
    ("one", "other", False, False),
]


@pytest.mark.parametrize(("caller", "callee", "direct", "lineage"), PAIRS)
def test_may_communicate_follows_the_reach(caller, callee, direct, lineage):
    pair = ("here", caller), ("here", callee)
    assert may_communicate(*pair, team("Direct"), {}) is direct
    assert may_communicate(*pair, team("Lineage"), {}) is lineage
    assert may_communicate(*pair, team("None"), {}) is (caller == callee)


@pytest.mark.parametrize(
    ("rows", "allowed"),
    [
        pytest.param([("a", "p", "Direct"), ("b", "p", "None")], False, id="the callee hides"),
        pytest.param([("a", "p", "None"), ("b", "p", "Direct")], False, id="the caller hides"),
        pytest.param([("a", "p", "Direct"), ("b", "p", "Lineage")], True, id="siblings of a missing parent"),
        pytest.param([("a", "p", "Direct"), ("b", "q", "Direct")], False, id="different missing parents"),
        pytest.param([("a", "p", "Direct"), ("b", None, "Direct")], False, id="an orphan is no root"),
        pytest.param([("a", None, "Direct"), ("there/b", None, "Direct")], False, id="roots of two namespaces"),
        pytest.param([("a", "b", "Lineage"), ("there/b", None, "Lineage")], False, id="a parent of another namespace"),
        pytest.param(
            [("a", "m", "Lineage"), ("m", "b", "None"), ("b", None, "Direct")], False,
            id="an ancestor that allows direct calls only",
        ),
        pytest.param(
            [("a", "m", "Lineage"), ("m", "b", "None"), ("b", None, "Lineage")], True,
            id="an agent between the two that hides",
        ),
        pytest.param([("a", "b", "Direct"), ("b", "a", "Direct")], True, id="a cycle of two"),
        pytest.param(
            [("a", None, "None", {"peers": [{"name": "b"}]}), ("b", None, "None")], True,
            id="a peer that the hierarchy hides",
        ),
        pytest.param(
            [
                ("a", None, "None", {"peers": [{"name": "b", "namespace": "there"}]}),
                ("there/b", None, "None", {"allowedCallers": {"agents": [{"name": "a", "namespace": "here"}]}}),
            ],
            True, id="a peer of another namespace that consents",
        ),
        pytest.param(
            [("a", None, "None", {"peers": [{"name": "b", "namespace": "there"}]}), ("there/b", None, "None")], False,
            id="a peer of another namespace that does not consent",
        ),
    ],
)  # fmt: skip
def test_may_communicate_needs_both_ends(rows, allowed):
    agents = fleet(*rows)
    callee = next(each for each in agents if each[1] == "b")
    assert may_communicate(("here", "a"), callee, agents, {"here": {}}) is allowed


def test_unknown_agents_may_not_communicate():
    agents = team("Lineage")
    assert not may_communicate(("here", "lead"), ("here", "nobody"), agents, {})
    assert not may_communicate(("here", "nobody"), ("here", "lead"), agents, {})
    assert colleagues(("here", "nobody"), agents, {}) == ()


def test_communication_reason_names_the_relation():
    agents = team("Lineage")
    reasons = {
        callee: communication_reason(("here", "one"), ("here", callee), agents, {})
        for callee in ("lead", "two", "below", "other")
    }
    assert reasons == {"lead": "is a child", "two": "is a sibling", "below": "is a parent", "other": None}
    assert communication_reason(("here", "lead"), ("here", "below"), agents, {}) == "is an ancestor"


def test_colleagues_are_sorted_and_without_the_agent_itself():
    assert colleagues(("here", "one"), team("Direct"), {}) == (("here", "below"), ("here", "lead"), ("here", "two"))


def test_hierarchy_of_a_tree():
    agents = team("None")
    assert ancestors(agents["here", "below"], agents) == (("here", "one"), ("here", "lead"))
    assert children_of(("here", "lead"), agents) == (("here", "one"), ("here", "two"))
    assert descendants(("here", "lead"), agents) == (("here", "one"), ("here", "two"), ("here", "below"))


def test_cycle_contains_its_members_only():
    agents = fleet(("a", "b", "None"), ("b", "c", "None"), ("c", "b", "None"))
    assert [is_in_cycle(agents["here", name], agents) for name in "abc"] == [False, True, True]


def test_walk_ends_at_the_greatest_depth():
    rows = [("a0", None, "Lineage"), *((f"a{n}", f"a{n - 1}", "Lineage") for n in range(1, 40))]
    agents = fleet(*rows)
    assert len(ancestors(agents["here", "a39"], agents)) == MAX_DEPTH
    assert not may_communicate(("here", "a39"), ("here", "a0"), agents, {})


NAMES = [f"a{n}" for n in range(6)]


@st.composite
def fleets(draw):
    reach = st.sampled_from(["None", "Direct", "Lineage"])
    return fleet(*((name, draw(st.sampled_from([None, *NAMES, "gone"])), draw(reach)) for name in NAMES))


@settings(max_examples=count_examples(200), deadline=None)
@given(fleets(), st.sampled_from(NAMES), st.sampled_from(NAMES))
def test_hierarchy_edges_are_symmetric(agents, one, other):
    """Cycles and missing parents included, an edge by hierarchy holds in both directions."""
    pair = ("here", one), ("here", other)
    assert may_communicate(*pair, agents, {}) == may_communicate(*reversed(pair), agents, {})


@settings(max_examples=count_examples(200), deadline=None)
@given(fleets(), st.sampled_from(NAMES))
def test_agent_that_hides_has_no_colleagues(agents, name):
    me = ("here", name)
    if agents[me].spec.fleet.reach == "None":
        assert colleagues(me, agents, {}) == ()
    assert me not in colleagues(me, agents, {})
