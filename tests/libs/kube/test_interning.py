"""Equal values share one object while it is referenced. Unreferenced objects are released."""

import gc

from tests.libs.kube.conftest import SCHEME

from fleetwright_kube.cached_object import cached_object
from fleetwright_kube.interning import InternedDict, InternPool


def test_intern_pool_shares_equal_values_until_collected() -> None:
    shared: InternPool[InternedDict] = InternPool()
    first = shared.of("a", lambda: InternedDict(a=1))
    assert shared.of("a", InternedDict) is first
    assert shared.of("b", lambda: InternedDict(b=2)) == {"b": 2}, "different keys have different values"
    del first
    gc.collect()
    assert len(shared) == 0


def test_cached_children_share_labels_owner_and_managed_fields() -> None:
    service, account = (cached_object(SCHEME, "Service", _child(name)) for name in ("a", "b"))
    assert service.labels is account.labels
    assert service.controller is account.controller
    assert service.owned is account.owned


def _child(name: str) -> dict[str, object]:
    owner = {"kind": "Agent", "name": "clerk", "uid": "7", "controller": True}
    ours = {
        "manager": "fleetwright",
        "operation": "Apply",
        "fieldsV1": {"f:metadata": {"f:labels": {"f:x": {}}}, "f:spec": {"f:ports": {}}},
    }
    metadata = {
        "name": name,
        "namespace": "shop",
        "uid": name,
        "resourceVersion": "1",
        "labels": {"x": "y"},
        "ownerReferences": [owner],
        "managedFields": [ours],
    }
    return {"metadata": metadata, "spec": {}}
