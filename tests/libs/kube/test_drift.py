"""The comparison of a child with what was applied, on field sets in the format of an API server."""

import copy

import pytest
from tests.libs.kube.conftest import SCHEME

from fleetwright_kube.drift import owns_all, with_hash

MANIFEST = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "x", "namespace": "n", "labels": {"a": "b"}, "ownerReferences": [{"uid": "u"}]},
    "spec": {
        "type": "ClusterIP",
        "selector": {"a": "b"},
        "ports": [{"name": "a2a", "port": 80, "targetPort": "a2a", "protocol": "TCP"}],
    },
}
OWNED = {
    "f:metadata": {"f:labels": {"f:a": {}}, "f:annotations": {"f:fleetwright.dev/desired-hash": {}}},
    "f:spec": {
        "f:type": {},
        "f:selector": {},
        "f:ports": {
            'k:{"port":80,"protocol":"TCP"}': {
                ".": {},
                "f:name": {},
                "f:port": {},
                "f:protocol": {},
                "f:targetPort": {},
            }
        },
    },
}


def test_owns_all_accepts_a_fully_owned_object():
    assert owns_all(OWNED, with_hash(SCHEME, MANIFEST))


def test_owns_all_accepts_additional_owned_fields():
    more = copy.deepcopy(OWNED)
    more["f:spec"]["f:sessionAffinity"] = {}
    assert owns_all(more, with_hash(SCHEME, MANIFEST))


@pytest.mark.parametrize(
    "path",
    [
        pytest.param(("f:metadata", "f:labels", "f:a"), id="a label"),
        pytest.param(("f:metadata", "f:annotations", "f:fleetwright.dev/desired-hash"), id="the hash itself"),
        pytest.param(("f:spec", "f:selector"), id="a value that is owned whole"),
        pytest.param(("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}'), id="an item of a list"),
        pytest.param(("f:spec", "f:ports", 'k:{"port":80,"protocol":"TCP"}', "f:targetPort"), id="a field of an item"),
    ],
)
def test_owns_all_detects_a_field_of_another_manager(path):
    taken = copy.deepcopy(OWNED)
    place = taken
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    if not place:
        place["f:other"] = {}
    assert not owns_all(taken, with_hash(SCHEME, MANIFEST))


def test_owns_all_rejects_an_object_without_owned_fields():
    assert not owns_all({}, with_hash(SCHEME, MANIFEST))


def test_with_hash_depends_on_content_not_on_order():
    turned = {key: MANIFEST[key] for key in reversed(MANIFEST)}
    annotation = "fleetwright.dev/desired-hash"
    first = with_hash(SCHEME, MANIFEST)["metadata"]["annotations"][annotation]
    assert with_hash(SCHEME, turned)["metadata"]["annotations"][annotation] == first
    other = {**MANIFEST, "spec": {**MANIFEST["spec"], "type": "NodePort"}}
    assert with_hash(SCHEME, other)["metadata"]["annotations"][annotation] != first
