"""The annotation that makes the kubelet read the mounted objects of running pods again."""

import pytest

from fleetwright_api import names
from fleetwright_operator.rollout.mount_refresher import REPEAT_SECONDS, repeat_seconds


def read_annotation(api, pod="p"):
    return api.find("Pod", pod)["metadata"].get("annotations", {}).get(names.REFRESH_ANNOTATION)


def start_pod(api, name="p", **more):
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    metadata = {"name": name, "namespace": "shop", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, **more})


def replace_model_key(api, objects, value):
    api.put(objects.secret("key", **{"api-key": value}))


@pytest.fixture
async def serving_world(world, api, objects):
    """An agent with one pod and a key for its model."""
    replace_model_key(api, objects, "eA==")
    model = {"name": "m", "baseURL": "https://models.example.com/v1", "apiKeySecretRef": {"name": "key"}}
    api.put(objects.agent(model=model))
    start_pod(api)
    await world.start()
    await world.settle()
    return world


async def test_new_pod_is_annotated_once(serving_world, api):
    first = read_annotation(api)
    assert first
    await serving_world.later(10 * REPEAT_SECONDS)
    assert read_annotation(api) == first


async def test_changed_secret_changes_the_annotation_twice(serving_world, api, objects):
    first = read_annotation(api)
    replace_model_key(api, objects, "eQ==")
    await serving_world.settle()
    second = read_annotation(api)
    assert second != first
    await serving_world.later(REPEAT_SECONDS - 1)
    assert read_annotation(api) == second
    await serving_world.later(1)
    third = read_annotation(api)
    assert third not in (first, second)
    await serving_world.later(10 * REPEAT_SECONDS)
    assert read_annotation(api) == third


async def test_change_before_the_repetition_starts_it_again(serving_world, api, objects):
    replace_model_key(api, objects, "eQ==")
    await serving_world.settle()
    await serving_world.later(REPEAT_SECONDS - 1)
    replace_model_key(api, objects, "eg==")
    await serving_world.settle()
    second = read_annotation(api)
    await serving_world.later(REPEAT_SECONDS - 1)
    assert read_annotation(api) == second
    await serving_world.later(1)
    assert read_annotation(api) != second


async def test_restarted_operator_still_repeats(serving_world, api, objects, make_world):
    replace_model_key(api, objects, "eQ==")
    await serving_world.settle()
    before = read_annotation(api)
    await serving_world.stop()
    successor = make_world(api)
    await successor.start()
    await successor.settle()
    assert read_annotation(api) != before
    await successor.stop()


async def test_pod_that_starts_meanwhile_needs_no_repetition(serving_world, api, objects):
    replace_model_key(api, objects, "eQ==")
    await serving_world.settle()
    start_pod(api, "q")
    await serving_world.settle()
    new = read_annotation(api, "q")
    await serving_world.later(REPEAT_SECONDS)
    assert read_annotation(api, "p") == read_annotation(api, "q") == new


async def test_old_pod_without_an_annotation_is_annotated_twice(serving_world, api, objects):
    """It may have started long before the operator, and mount what the operator has just changed."""
    await serving_world.later(3600)
    start_pod(api, "q")
    await serving_world.settle()
    first = read_annotation(api, "q")
    await serving_world.later(REPEAT_SECONDS)
    assert first
    assert read_annotation(api, "q") not in (None, first)


@pytest.mark.parametrize(("lead", "wanted"), [(0, 1), (1, 1), (3, 2), (15, 10), (600, 10)])
def test_second_change_precedes_the_first_use_of_a_token(lead, wanted):
    assert repeat_seconds(lead) == wanted


async def test_pod_that_has_ended_is_not_annotated(serving_world, api, objects):
    start_pod(api, "ended", status={"phase": "Succeeded"})
    await serving_world.settle()
    assert read_annotation(api, "ended") is None


async def test_deleted_agent_has_no_repetition(serving_world, api, objects):
    replace_model_key(api, objects, "eQ==")
    await serving_world.settle()
    agent = (names.AGENT, "shop", "poet")
    refresher = serving_world.manager.reconciler._kinds[names.AGENT].mounts
    assert refresher.repeat_after(agent) == REPEAT_SECONDS
    api.remove("Agent", "poet")
    await serving_world.settle()
    assert refresher.repeat_after(agent) is None
