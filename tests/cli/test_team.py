"""The tree of a team and its bundle, on plain objects."""

import pytest
import yaml

from fleetwright_cli.team.bundle import config_maps_of, document, portable, secrets_of
from fleetwright_cli.team.tree import members, render, tops


def agent(name, parent=None, **status):
    spec = {"instructions": "Help."} | ({"fleet": {"parent": {"name": parent}}} if parent else {})
    return {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": name, "namespace": "n"},
        "spec": spec,
        "status": status,
    }


READY = [{"type": "Ready", "status": "True", "reason": "Available"}]


@pytest.mark.parametrize(
    ("agents", "wanted"),
    [
        pytest.param([], [], id="no agents"),
        pytest.param([agent("b"), agent("a")], ["a", "b"], id="agents without a parent, sorted"),
        pytest.param([agent("b", "a"), agent("a")], ["a"], id="a child is no top"),
        pytest.param([agent("b", "gone")], ["b"], id="a missing parent makes a top"),
        pytest.param([agent("a", "b"), agent("b", "a"), agent("c", "a")], ["a"], id="one agent of each cycle"),
        pytest.param([agent("a", "a")], ["a"], id="an agent that is its own parent"),
    ],
)
def test_tops_are_agents_without_an_existing_parent(agents, wanted):
    assert [top["metadata"]["name"] for top in tops(agents)] == wanted


def test_members_of_a_cycle_are_each_listed_once():
    agents = [agent("a", "c"), agent("b", "a"), agent("c", "b")]
    assert [member.name for member in members(agents[0], agents)] == ["a", "b", "c"]


def test_tree_is_drawn_with_phase_and_readiness():
    agents = [
        agent("lead", phase="Running", conditions=READY),
        agent("one", "lead", phase="Asleep", conditions=[{**READY[0], "reason": "Asleep"}]),
        agent("below", "one"),
        agent("two", "lead", phase="Running", conditions=READY),
    ]
    assert render(list(members(agents[0], agents))).splitlines() == [
        "NAME         PHASE    READY    REASON",
        "lead         Running  True     Available",
        "├─ one       Asleep   True     Asleep",
        "│  └─ below  -        Unknown  -",
        "└─ two       Running  True     Available",
    ]


def test_portable_manifest_keeps_only_what_a_user_writes():
    body = agent("a", "lead")
    body["metadata"] |= {
        "namespace": "here",
        "uid": "1",
        "resourceVersion": "2",
        "managedFields": [],
        "labels": {"team": "x"},
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": "{}",
            "fleetwright.dev/wake": "2026-01-01T00:00:00Z",
            "owner": "me",
        },
    }
    assert portable(body) == {
        "apiVersion": "fleetwright.dev/v1alpha1",
        "kind": "Agent",
        "metadata": {"name": "a", "labels": {"team": "x"}, "annotations": {"owner": "me"}},
        "spec": {"instructions": "Help.", "fleet": {"parent": {"name": "lead"}}},
    }


@pytest.mark.parametrize(
    ("spec", "secrets", "config_maps"),
    [
        pytest.param({"model": {"apiKeySecretRef": {"name": "s", "key": "k"}}}, ["s"], [], id="a key of a model"),
        pytest.param(
            {"model": {"headersFrom": [{"name": "X-Key", "secretKeyRef": {"name": "h", "key": "k"}}]}},
            ["h"], [], id="a header",
        ),
        pytest.param({"instructionsFrom": {"configMapKeyRef": {"name": "c", "key": "k"}}}, [], ["c"], id="a prompt"),
        pytest.param({"source": {"configMap": {"name": "files"}}}, [], ["files"], id="the files of a skill"),
        pytest.param({"imagePullSecrets": [{"name": "pull"}]}, ["pull"], [], id="credentials of a registry"),
        pytest.param(
            {"podTemplate": {"spec": {"volumes": [{"name": "v", "secret": {"secretName": "mounted"}}]}}},
            ["mounted"], [], id="a volume of a pod template",
        ),
        pytest.param({"instructions": "Read the secretRef of x."}, [], [], id="a text that mentions a reference"),
    ],
)  # fmt: skip
def test_references_to_secrets_and_config_maps_are_found(spec, secrets, config_maps):
    assert secrets_of([{"spec": spec}]) == secrets
    assert config_maps_of([{"spec": spec}]) == config_maps


def test_document_orders_kinds_below_its_comment():
    lead = portable(agent("lead"))
    child = portable(agent("child", "lead"))
    skill = {**lead, "kind": "Skill", "metadata": {"name": "s"}, "spec": {}}
    files = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "1"}}
    text = document([lead, child, skill, files], ["Create:", "Secret: provider"])
    assert text.startswith("# Create:\n# Secret: provider\n")
    assert [each["metadata"]["name"] for each in yaml.safe_load_all(text)] == ["c", "s", "lead", "child"]
