"""The cache of the cluster, and the keys that a change enqueues."""

import pytest

from fleetwright_kube.cache import Cache
from fleetwright_kube.cached_object import cached_object
from fleetwright_kube.port import Listing
from fleetwright_operator.kinds.resources import RESOURCES, SECRETS, SERVICES
from fleetwright_operator.kinds.scheme import SCHEME
from fleetwright_operator.observe.watch_index import WatchIndex
from fleetwright_operator.settings import Settings

POLICIES = RESOURCES["NetworkPolicy"]


@pytest.fixture
def watch_index() -> WatchIndex:
    return WatchIndex(Settings())


@pytest.fixture
def cache(watch_index) -> Cache:
    return Cache(SCHEME, index_keys=watch_index.index_keys)


def versioned(body: dict, version: int, **metadata: object) -> dict:
    return {**body, "metadata": {**body["metadata"], "resourceVersion": str(version), **metadata}}


def child(kind: str, name: str, label: str = "agent", owner: str = "poet", **parts: object) -> dict:
    labels = {"app.kubernetes.io/managed-by": "fleetwright", f"fleetwright.dev/{label}": owner}
    metadata = {"name": name, "namespace": "shop", "uid": f"u-{name}", "labels": labels}
    return {"kind": kind, "metadata": metadata, **parts}


def test_cache_ignores_older_resource_versions(cache, objects):
    assert cache.put("Agent", versioned(objects.agent(instructions="new"), 10))
    assert cache.put("Agent", versioned(objects.agent(instructions="old"), 9)) is None
    assert cache.put("Agent", versioned(objects.agent(instructions="new"), 10)) is None
    assert cache.get("Agent", "shop", "poet").projection["view"].spec.instructions == "new"


def test_cache_ignores_a_deletion_of_another_uid(cache, objects):
    cache.put("Agent", versioned(objects.agent(), 10, uid="second"))
    assert cache.drop("Agent", "shop", "poet", uid="first") is None
    assert cache.get("Agent", "shop", "poet")


def test_cache_replace_drops_missing_but_keeps_newer_objects(cache):
    service = {"metadata": {"name": "x", "namespace": "shop", "uid": "u"}, "spec": {}}
    cache.put("Service", versioned(service, 5))
    young = {**service, "metadata": {**service["metadata"], "name": "young", "uid": "y"}}
    cache.put("Service", versioned(young, 20))
    changes = cache.replace(SERVICES, Listing(items=[], resource_version="10"), namespace=None)
    assert [(change.before.name, change.after) for change in changes] == [("x", None)]
    assert cache.get("Service", "shop", "young")


def test_cache_replace_ignores_a_list_older_than_a_deletion(cache):
    policy = versioned(child("NetworkPolicy", "probe"), 5)
    cache.put("NetworkPolicy", policy)
    assert cache.drop("NetworkPolicy", "shop", "probe", uid="u-probe", version="12")
    listing = Listing(items=[cached_object(SCHEME, "NetworkPolicy", policy)], resource_version="11")
    assert cache.replace(POLICIES, listing, namespace=None) == []
    assert cache.get("NetworkPolicy", "shop", "probe") is None


def test_cache_replace_keeps_a_successor_over_a_stale_list(cache):
    """A list from before a deletion does not replace the object's successor."""
    first = versioned(child("Service", "poet"), 5)
    second = versioned({**first, "metadata": {**first["metadata"], "uid": "second"}}, 13)
    cache.put("Service", first)
    cache.drop("Service", "shop", "poet", uid="u-poet", version="12")
    cache.put("Service", second)
    listing = Listing(items=[cached_object(SCHEME, "Service", first)], resource_version="11")
    assert cache.replace(SERVICES, listing, namespace=None) == []
    assert cache.get("Service", "shop", "poet").uid == "second"


def test_cache_accepts_an_object_that_matches_the_selector_again(cache):
    cache.put("Service", versioned(child("Service", "poet"), 5))
    cache.drop("Service", "shop", "poet", uid="u-poet", version="12")
    assert cache.put("Service", versioned(child("Service", "poet"), 13))


@pytest.mark.parametrize(
    ("heard", "left"),
    [
        pytest.param("DELETED", "12", id="by an event of that very version"),
        pytest.param("list", "30", id="by a list of a later version that misses it"),
    ],
)
def test_cache_recall_accepts_an_object_that_left_the_selector(cache, heard, left):
    """An object that only left the selector is stored when it is read directly."""
    cache.put("Service", versioned(child("Service", "poet"), 5))
    bare = versioned(child("Service", "poet"), 12, labels={})
    if heard == "list":
        cache.replace(SERVICES, Listing(items=[], resource_version=left), namespace=None)
    else:
        cache.drop("Service", "shop", "poet", uid="u-poet", version=left)
    assert cache.put("Service", bare) is None, "the list may be older than the deletion"
    cache.recall("Service", "u-poet")
    assert cache.put("Service", bare)


def test_cache_accepts_a_terminating_object_after_its_drop(cache):
    claim = versioned(child("PersistentVolumeClaim", "poet-memory"), 5)
    cache.put("PersistentVolumeClaim", claim)
    cache.drop("PersistentVolumeClaim", "shop", "poet-memory", uid="u-poet-memory")
    assert cache.put("PersistentVolumeClaim", versioned(claim, 6, deletionTimestamp="2026-03-01T12:00:00Z"))


def test_cache_replace_affects_one_namespace_only(cache):
    cache.put("Secret", versioned(child("Secret", "s"), 5))
    assert cache.replace(SECRETS, Listing(items=[], resource_version="10"), namespace="other") == []


def test_metadata_only_object_is_never_a_child(cache):
    cache.put("SecretMetadata", versioned(child("Secret", "poet-auth"), 5))
    assert cache.find("child-of", "Agent", "shop", "poet") == []


POET = {
    "skills": [{"name": "haiku"}],
    "mcpServers": [{"name": "tools"}],
    "peers": [{"name": "helper"}],
    "model": {"name": "m", "baseURL": "http://llm.models/v1", "apiKeySecretRef": {"name": "key"}},
}
CHANGES = [
    pytest.param("Skill", "shop", "haiku", {("Skill", "shop", "haiku"), ("Agent", "shop", "poet")}, id="a skill"),
    pytest.param(
        "McpServer", "shop", "tools", {("McpServer", "shop", "tools"), ("Agent", "shop", "poet")}, id="a server"
    ),
    pytest.param("SecretMetadata", "shop", "key", {("Agent", "shop", "poet")}, id="the secret with the key"),
    pytest.param("SecretMetadata", "shop", "other", set(), id="another secret"),
]


@pytest.mark.parametrize(("kind", "namespace", "name", "wanted"), CHANGES)
def test_watch_index_enqueues_the_users_of_an_object(cache, watch_index, objects, kind, namespace, name, wanted):
    cache.put("Agent", versioned(objects.agent(**POET), 1))
    body = {"metadata": {"name": name, "namespace": namespace, "uid": "u"}, "spec": {}}
    assert watch_index.keys_to_enqueue(cache.put(kind, versioned(body, 2)), cache) == wanted


def test_watch_index_enqueues_users_and_namesakes_of_a_service(cache, watch_index, objects):
    cache.put("Agent", versioned(objects.agent(**POET), 1))
    body = {"metadata": {"name": "llm", "namespace": "models", "uid": "u"}, "spec": {}}
    keys_to_enqueue = watch_index.keys_to_enqueue(cache.put("Service", versioned(body, 2)), cache)
    assert keys_to_enqueue == {("Agent", "shop", "poet"), ("Agent", "models", "llm"), ("McpServer", "models", "llm")}


NAMED = [
    pytest.param({"a2a": {"push": {"allowedHosts": ["far.models:8443"]}}}, id="a receiver of push notifications"),
    pytest.param({"telemetry": {"otlp": {"endpoint": "http://far.models.svc:4318"}}}, id="the collector of traces"),
    pytest.param({"model": {"name": "m", "baseURL": "http://far.models/v1"}}, id="a model"),
    pytest.param(
        {"model": {"name": "m", "baseURL": "https://example.com/v1", "proxyURL": "http://far.models:3128"}},
        id="the proxy of a model",
    ),
    pytest.param(
        {
            "workspace": {
                "image": "debian",
                "source": {"git": {"url": "https://git.example.com/shop", "proxyURL": "http://far.models:3128"}},
            }
        },
        id="the proxy of a workspace's repository",
    ),
]


@pytest.mark.parametrize("spec", NAMED)
def test_watch_index_enqueues_agents_that_reach_a_service(cache, watch_index, objects, spec):
    cache.put("Agent", versioned(objects.agent(**spec), 1))
    body = {"metadata": {"name": "far", "namespace": "models", "uid": "u"}, "spec": {}}
    change = cache.put("Service", versioned(body, 2))
    assert ("Agent", "shop", "poet") in watch_index.keys_to_enqueue(change, cache)


def test_watch_index_enqueues_a_removed_peer(cache, watch_index, objects):
    cache.put("Agent", versioned(objects.agent("helper"), 1))
    cache.put("Agent", versioned(objects.agent(**POET), 2))
    change = cache.put("Agent", versioned(objects.agent(), 3, generation=2))
    assert ("Agent", "shop", "helper") in watch_index.keys_to_enqueue(change, cache)


def test_watch_index_ignores_status_changes(cache, watch_index, objects):
    cache.put("Agent", versioned(objects.agent(), 1))
    change = cache.put("Agent", versioned({**objects.agent(), "status": {"url": "x"}}, 2))
    assert watch_index.keys_to_enqueue(change, cache) == set()


def test_watch_index_enqueues_the_callee_of_a_changed_token(cache, watch_index):
    secret = child("Secret", "poet-auth", data={"peer.shop.helper": "eA=="})
    first = cache.put("Secret", versioned(secret, 1))
    assert watch_index.keys_to_enqueue(first, cache) == {("Agent", "shop", "poet"), ("Agent", "shop", "helper")}
    gone = cache.put("Secret", versioned({**secret, "data": {}}, 2))
    assert ("Agent", "shop", "helper") in watch_index.keys_to_enqueue(gone, cache)


def test_watch_index_enqueues_the_owner_of_an_unlabelled_child(cache, watch_index):
    cache.put("ServiceAccount", versioned(child("ServiceAccount", "poet"), 1))
    bare = child("ServiceAccount", "poet")
    bare["metadata"]["labels"] = {}
    change = cache.put("ServiceAccount", versioned(bare, 2))
    assert watch_index.keys_to_enqueue(change, cache) == {("Agent", "shop", "poet")}


def test_secret_metadata_key_names_come_from_managed_fields(cache):
    managers = [{"fieldsV1": {"f:data": {".": {}, "f:a": {}}}}, {"fieldsV1": {"f:stringData": {"f:b": {}}}}]
    body = {"metadata": {"name": "s", "namespace": "n", "uid": "u", "managedFields": managers}}
    cache.put("SecretMetadata", versioned(body, 1))
    assert cache.get("SecretMetadata", "n", "s").projection == {"keys": frozenset("ab")}
    unknown = {"metadata": {"name": "t", "namespace": "n", "uid": "v", "managedFields": [{}]}}
    cache.put("SecretMetadata", versioned(unknown, 2))
    assert cache.get("SecretMetadata", "n", "t").projection == {"keys": None}
