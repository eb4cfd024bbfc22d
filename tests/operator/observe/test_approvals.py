"""The pod that gets the operator's token, and the agents that may ask."""

import pytest

from fleetwright_api import names
from fleetwright_kube.cache import Cache
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.observe.approvals import asking_agents, serving_pod
from fleetwright_operator.observe.watch_index import WatchIndex
from fleetwright_operator.settings import Settings

LABELS = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}


def owner(kind, name, uid):
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": uid, "controller": True}


@pytest.fixture
def cache(objects):
    cache = Cache(SCHEME, index_keys=WatchIndex(Settings()).index_keys)
    body = objects.agent(approvals={"tools": ["load_skill"]})
    cache.put(names.AGENT, {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}})
    return cache


def add_deployment(cache, *, owned_by="uid-poet"):
    metadata = {"name": "poet", "namespace": "shop", "uid": "d", "labels": LABELS, "resourceVersion": "2"}
    metadata["ownerReferences"] = [owner("Agent", "poet", owned_by)]
    cache.put("Deployment", {"metadata": metadata, "spec": {"template": {"metadata": {}, "spec": {}}}})


def add_replica_set(cache, name="poet-5d4f", *, uid="rs", controller=("Deployment", "poet", "d")):
    metadata = {"name": name, "namespace": "shop", "uid": uid, "labels": LABELS, "resourceVersion": "3"}
    references = [owner(*controller)] if controller else []
    cache.put("ReplicaSetMetadata", {"metadata": {**metadata, "ownerReferences": references}})


def add_pod(
    cache, name="poet-1", *, ready="True", ip="10.0.0.1", controller=("ReplicaSet", "poet-5d4f", "rs"), **metadata
):
    references = [owner(*controller)] if controller else []
    about = {"name": name, "namespace": "shop", "uid": name, "labels": LABELS, "resourceVersion": "3"}
    status = {"podIP": ip, "conditions": [{"type": "Ready", "status": ready}]}
    cache.put("Pod", {"metadata": {**about, "ownerReferences": references, **metadata}, "status": status})


def found(cache):
    pod = serving_pod(cache, cache.get(names.AGENT, "shop", "poet"))
    return pod.name if pod else None


@pytest.mark.parametrize(
    ("pod", "serves"),
    [
        pytest.param({}, True, id="a ready pod of the Deployment"),
        pytest.param({"ready": "False"}, False, id="a pod that is not ready"),
        pytest.param({"ip": ""}, False, id="a pod without an address"),
        pytest.param({"controller": None}, False, id="a pod with the label only"),
        pytest.param({"controller": ("Job", "poet-5d4f", "rs")}, False, id="a pod of a Job"),
        pytest.param({"controller": ("Agent", "poet", "uid-poet")}, False, id="a pod of the Agent itself"),
        pytest.param({"controller": ("Deployment", "poet", "d")}, False, id="a pod of the Deployment itself"),
        pytest.param({"controller": ("ReplicaSet", "poet-abcd", "rs")}, False, id="a ReplicaSet that does not exist"),
        pytest.param({"controller": ("ReplicaSet", "poet-5d4f", "r2")}, False, id="another uid of the ReplicaSet"),
        pytest.param({"controller": ("ReplicaSet", "poet-lone", "r3")}, False, id="a ReplicaSet without an owner"),
        pytest.param({"controller": ("ReplicaSet", "poet-other", "r4")}, False, id="a ReplicaSet of another uid"),
        pytest.param({"controller": ("ReplicaSet", "poet-agent", "r5")}, False, id="a ReplicaSet of the Agent"),
        pytest.param({"deletionTimestamp": "2026-03-01T12:00:00Z"}, False, id="a pod that terminates"),
    ],
)
def test_serving_pod_is_a_ready_pod_of_the_own_deployment(cache, pod, serves):
    add_deployment(cache)
    add_replica_set(cache)
    add_replica_set(cache, "poet-lone", uid="r3", controller=None)
    add_replica_set(cache, "poet-other", uid="r4", controller=("Deployment", "poet", "an-earlier-d"))
    add_replica_set(cache, "poet-agent", uid="r5", controller=("Agent", "poet", "uid-poet"))
    add_pod(cache, **pod)
    assert found(cache) == ("poet-1" if serves else None)


def test_serving_pod_needs_a_deployment_of_this_agent(cache):
    add_replica_set(cache)
    add_pod(cache)
    assert found(cache) is None
    add_deployment(cache, owned_by="uid-of-an-earlier-poet")
    assert found(cache) is None


def test_serving_pod_is_none_if_two_pods_claim_to_be_the_agent(cache):
    add_deployment(cache)
    add_replica_set(cache)
    add_pod(cache, "poet-1")
    assert found(cache) == "poet-1"
    add_pod(cache, "poet-2")
    assert found(cache) is None


def test_asking_agents_are_those_that_may_request_approvals(cache, objects):
    body = objects.agent("muse")
    cache.put(names.AGENT, {**body, "metadata": {**body["metadata"], "resourceVersion": "1"}})
    assert list(asking_agents(cache, Settings())) == []
    add_deployment(cache)
    add_replica_set(cache)
    add_pod(cache)
    assert [(agent.name, pod.name) for agent, pod in asking_agents(cache, Settings())] == [("poet", "poet-1")]
