"""The cache knows the generation after the last write of this process, which other programs do not raise."""

import pytest
from tests.libs.kube.conftest import SCHEME

from fleetwright_kube.cache import Cache


def deployment(version, generation, *, uid="u"):
    metadata = {"namespace": "n", "name": "x", "uid": uid, "resourceVersion": str(version), "generation": generation}
    return {"metadata": metadata}


@pytest.fixture
def cache():
    return Cache(SCHEME, index_keys=lambda entry: ())


def written_generation(cache):
    return cache.get("Deployment", "n", "x").written_generation


def test_first_version_counts_as_written(cache):
    cache.put("Deployment", deployment(1, 4))
    assert written_generation(cache) == 4


def test_changes_by_others_do_not_raise_the_written_generation(cache):
    cache.put("Deployment", deployment(1, 4))
    cache.put("Deployment", deployment(2, 5))
    assert written_generation(cache) == 4


def test_own_write_raises_the_written_generation(cache):
    cache.put("Deployment", deployment(1, 4))
    cache.put("Deployment", deployment(2, 5), is_written=True)
    assert written_generation(cache) == 5


def test_response_after_its_event_raises_the_written_generation(cache):
    cache.put("Deployment", deployment(1, 4))
    cache.put("Deployment", deployment(2, 5))
    assert cache.put("Deployment", deployment(2, 5), is_written=True) is None
    assert written_generation(cache) == 5


def test_object_with_a_reused_name_begins_anew(cache):
    cache.put("Deployment", deployment(1, 4))
    cache.put("Deployment", deployment(2, 1, uid="another"))
    assert written_generation(cache) == 1
