"""The command `status`, and what `why` and `agents` say if no operator works on an agent."""

from datetime import UTC, datetime

import click
import pytest

from fleetwright_cli.cluster.tables import render
from fleetwright_cli.inspection.agents import describe_unserved_agents
from fleetwright_cli.inspection.installations import (
    describe_lease_problem,
    group_unserved_agents,
    installation_rows,
    list_problems,
    read_installations,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
FRESH = {
    "spec": {
        "holderIdentity": "fleetwright-operator-1",
        "renewTime": "2026-03-01T11:59:55.123456Z",
        "leaseDurationSeconds": 15,
    }
}
STALE = {"spec": {**FRESH["spec"], "renewTime": "2026-03-01T09:00:00.000000Z"}}
RELEASED = {"spec": {**STALE["spec"], "holderIdentity": ""}}


def operator(namespace, *, namespaces="", lease="", ready=1):
    values = {"FLEETWRIGHT_NAMESPACES": namespaces, **({"FLEETWRIGHT_LEASE_NAME": lease} if lease else {})}
    environment = [{"name": name, "value": value} for name, value in values.items()]
    labels = {"app.kubernetes.io/version": "0.2.0"}
    return {
        "metadata": {"namespace": namespace, "name": "fleetwright-operator", "labels": labels},
        "spec": {"replicas": 1, "template": {"spec": {"containers": [{"name": "operator", "env": environment}]}}},
        "status": {"readyReplicas": ready},
    }


def agent(
    name="poet",
    *,
    generation=3,
    observed=3,
    installation="system/fleetwright-operator",
    namespace="shop",
    deleted=False,
):
    known = {"observedGeneration": observed} if observed else {}
    status = {**known, **({"installation": installation} if installation else {})}
    deletion = {"deletionTimestamp": "2026-03-01T12:00:00Z"} if deleted else {}
    return {"metadata": {"name": name, "namespace": namespace, "generation": generation, **deletion}, "status": status}


class Cluster:
    def __init__(self, *, operators=(), agents=(), leases=None):
        self._operators = operators
        self._agents = list(agents)
        self._leases = leases or {}

    def list_operators(self, *, namespace=None):
        if isinstance(self._operators, Exception):
            raise self._operators
        return [each for each in self._operators if namespace in {None, each["metadata"]["namespace"]}]

    def list(self, kind, *, everywhere):
        return self._agents if kind == "Agent" else []

    def find_lease(self, namespace, name):
        found = self._leases.get(f"{namespace}/{name}")
        if isinstance(found, Exception):
            raise found
        return found


def test_status_lists_installations_with_leader_and_namespaces():
    cluster = Cluster(
        operators=[operator("system"), operator("team", namespaces="shop,desk", lease="own")],
        agents=[agent(), agent(installation="")],
        leases={"system/fleetwright-operator": FRESH, "team/own": FRESH},
    )
    found = read_installations(cluster, now=NOW)
    assert render(installation_rows(found, now=NOW)).splitlines() == [
        "INSTALLATION                  VERSION   PODS   LEADER                   RENEWED   NAMESPACES   OBJECTS",
        "system/fleetwright-operator   0.2.0     1/1    fleetwright-operator-1   5s        all          1",
        "team/own                      0.2.0     1/1    fleetwright-operator-1   5s        desk,shop    0",
    ]
    (problem,) = list_problems(found)
    assert problem.startswith("system/fleetwright-operator and team/own both serve desk, shop.")


@pytest.mark.parametrize(
    ("one", "other", "shared"),
    [
        pytest.param("", "", "all namespaces", id="both serve all"),
        pytest.param("shop", "shop,desk", "shop", id="one in common"),
        pytest.param("shop", "desk", "", id="none in common"),
    ],
)
def test_status_names_the_namespaces_that_two_installations_serve(one, other, shared):
    leases = {"a/fleetwright-operator": FRESH, "b/fleetwright-operator": FRESH}
    cluster = Cluster(operators=[operator("a", namespaces=one), operator("b", namespaces=other)], leases=leases)
    problems = list_problems(read_installations(cluster, now=NOW))
    assert [f"both serve {shared}." in each for each in problems] == ([True] if shared else [])


def test_status_names_an_installation_that_was_removed():
    cluster = Cluster(agents=[agent(), agent()], leases={"system/fleetwright-operator": STALE})
    (found,) = read_installations(cluster, now=NOW)
    assert (found.objects, found.version, found.renewed) == (2, "", "2026-03-01T09:00:00Z")
    assert list_problems([found]) == ["system/fleetwright-operator is not installed any more"]


def test_status_of_a_cluster_without_fleetwright_is_a_problem():
    assert list_problems(read_installations(Cluster(), now=NOW)) == ["no installation was found: install the chart"]


@pytest.mark.parametrize(
    ("lease", "says"),
    [
        pytest.param(FRESH, "", id="it is renewed"),
        pytest.param(STALE, "has not renewed its Lease for 3h", id="it is not renewed"),
        pytest.param(RELEASED, "has had no leader for 3h", id="it was released"),
        pytest.param(None, "has no leader yet", id="it does not exist"),
        pytest.param({"spec": {}}, "has no leader yet", id="it is empty"),
    ],
)
def test_describe_stop_reads_the_lease(lease, says):
    assert describe_lease_problem(lease, now=NOW) == says


def test_status_names_objects_in_namespaces_that_their_installation_has_left():
    cluster = Cluster(
        operators=[operator("system", namespaces="desk,team")],
        agents=[agent(), agent(namespace="team"), agent(namespace="home")],
        leases={"system/fleetwright-operator": FRESH},
    )
    assert list_problems(read_installations(cluster, now=NOW)) == [
        "system/fleetwright-operator manages objects in home, shop, which it does not serve: nothing works on them"
    ]


FORBIDDEN = click.ClickException("forbidden")


@pytest.mark.parametrize(
    ("body", "lease", "operators", "says"),
    [
        pytest.param(agent(), FRESH, [operator("system")], "", id="a working operator"),
        pytest.param(agent(), FRESH, [operator("system", namespaces="shop,desk")], "", id="it serves the namespace"),
        pytest.param(
            agent(),
            FRESH,
            [operator("system", namespaces="team,desk")],
            "system/fleetwright-operator, which manages it, no longer serves namespace shop, only desk, team. Add",
            id="it has left the namespace",
        ),
        pytest.param(agent(), FRESH, [], "", id="an operator outside the cluster"),
        pytest.param(
            agent(observed=None, installation=""), FRESH, [], "no operator has seen the agent.", id="nobody has seen it"
        ),
        pytest.param(agent(generation=4), FRESH, [], "has not seen generation 4 yet; it has seen 3", id="a newer spec"),
        pytest.param(
            agent(generation=4), STALE, [], "which manages the agent, has not renewed", id="an operator that ended"
        ),
        pytest.param(agent(), FORBIDDEN, FORBIDDEN, "", id="a Lease and Deployments that the user may not read"),
        pytest.param(agent(), STALE, FORBIDDEN, "which manages the agent, has not renewed", id="only the Lease"),
        pytest.param(
            agent(),
            FORBIDDEN,
            [operator("system", namespaces="desk")],
            "no longer serves namespace shop, only desk",
            id="only the Deployment",
        ),
        pytest.param(agent(installation=""), STALE, [], "", id="an operator of an earlier version"),
        pytest.param(agent(generation=4, deleted=True), FRESH, [], "", id="an agent that is being deleted"),
    ],
)
def test_why_knows_whether_an_operator_works_on_the_agent(body, lease, operators, says):
    cluster = Cluster(leases={"system/fleetwright-operator": lease}, operators=operators)
    (found,) = group_unserved_agents(cluster, [body], now=NOW) or [""]
    assert says in found
    assert bool(says) is bool(found)


def test_agents_of_one_installation_share_one_reading_and_one_reason():
    class Counted(Cluster):
        reads = 0

        def find_lease(self, namespace, name):
            self.reads += 1
            return super().find_lease(namespace, name)

    cluster = Counted(leases={"system/fleetwright-operator": STALE})
    agents = [agent(name) for name in ("poet", "clerk", "cook", "guide", "scout")]
    unserved = group_unserved_agents(cluster, [*agents, agent("new", observed=None)], now=NOW)
    assert cluster.reads == 1
    stopped, new = describe_unserved_agents(unserved, with_namespace=False)
    assert stopped.startswith("poet, clerk, cook and 2 others: no operator works: system/fleetwright-operator, which")
    assert new.startswith("new: no operator has seen the agent.")
    (first, _) = describe_unserved_agents(unserved, with_namespace=True)
    assert first.startswith("shop/poet, shop/clerk, shop/cook and 2 others: ")
