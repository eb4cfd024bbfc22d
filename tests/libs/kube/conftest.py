"""A scheme of two kinds, and an in-memory API with it."""

import pytest

from fleetwright_kube.memory_api import MemoryApi
from fleetwright_kube.port import Resource
from fleetwright_kube.scheme import Scheme

WIDGETS = Resource(kind="Widget", group="example.com", version="v1", plural="widgets")
CONFIG_MAPS = Resource(kind="ConfigMap", group="", version="v1", plural="configmaps", selector="app=example")
SECRET_METADATA = Resource(kind="SecretMetadata", group="", version="v1", plural="secrets", metadata_only=True)
SCHEME = Scheme(
    field_manager="fleetwright",
    group="fleetwright.dev",
    hash_annotation="fleetwright.dev/desired-hash",
    resources={resource.kind: resource for resource in (WIDGETS, CONFIG_MAPS, SECRET_METADATA)},
    projections={},
)


@pytest.fixture
def api() -> MemoryApi:
    return MemoryApi(SCHEME)
