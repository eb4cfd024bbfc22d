"""Volume claims that differ from the spec: sizes that are refused, grown or restored claims, and other classes."""

import json

import pytest

from fleetwright_api.quantity import parse_quantity
from fleetwright_kube.errors import api_error

REFUSAL = "only dynamically provisioned pvc can be resized and the storageclass must support resize"
CLAIM = "poet-memory"


def refuse_growth(api, claim=CLAIM, *, code=403):
    api.fault = lambda _, what: api_error(code, REFUSAL) if what.endswith(f"PersistentVolumeClaim {claim}") else None


async def start_agent(world, api, objects, *, phase="Bound", **spec):
    api.put(objects.agent(**spec))
    await world.start()
    await world.settle()
    for body in api.all("PersistentVolumeClaim"):
        api.set_status("PersistentVolumeClaim", body["metadata"]["name"], {"phase": phase})
    await world.settle()


async def change_agent(world, api, objects, **spec):
    api.writes.clear()
    api.put(objects.agent(**spec))
    await world.settle()


def claim_spec(api, name=CLAIM):
    return api.find("PersistentVolumeClaim", name)["spec"]


def claim_writes(api, name=CLAIM):
    return [write for write in api.writes if write.endswith(f"PersistentVolumeClaim {name}")]


def difference(world):
    return world.conditions("Agent", "poet").get("StorageDiffers")


def limit_of_memory(api):
    """Return `memory.maxBytes` of the newest revision; None if the agent decides."""
    revision = api.find("Agent", "poet")["status"]["revision"]
    document = json.loads(api.find("ConfigMap", f"poet-{revision}")["data"]["agent.json"])
    return document["memory"].get("maxBytes")


@pytest.mark.parametrize("code", [403, 422])
async def test_refused_growth_is_reported_and_stops_nothing_else(world, api, objects, code):
    await start_agent(world, api, objects, memory={"storage": {"size": "1Gi"}})
    refuse_growth(api, code=code)
    await change_agent(world, api, objects, memory={"storage": {"size": "2Gi"}}, description="Writes poems.")
    status, reason, message = difference(world)
    assert (status, reason) == ("True", "NotExpanded")
    assert message.startswith(
        f"spec.memory.storage.size is 2Gi, but the volume claim 'poet-memory' has 1Gi: {REFUSAL}. Set the former size"
    )
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"
    assert "Writes poems." in api.find("ConfigMap", "poet-card")["data"]["agent-card.json"]
    assert limit_of_memory(api) == int(2**30 * 0.8), "the limit is that of the volume, not that of the spec"
    assert len(claim_writes(api)) == 1


async def test_refused_growth_can_be_reverted(world, api, objects):
    await start_agent(world, api, objects, memory={"storage": {"size": "1Gi"}})
    before = api.find("Agent", "poet")["status"]["revision"]
    refuse_growth(api)
    await change_agent(world, api, objects, memory={"storage": {"size": "2Gi"}})
    await change_agent(world, api, objects, memory={"storage": {"size": "1Gi"}})
    assert difference(world) is None
    assert claim_writes(api) == []
    assert api.find("Agent", "poet")["status"]["revision"] == before


async def test_refused_growth_is_tried_again_after_five_minutes(world, api, objects):
    await start_agent(world, api, objects, memory={"storage": {"size": "1Gi"}})
    refuse_growth(api)
    await change_agent(world, api, objects, memory={"storage": {"size": "2Gi"}})
    assert world.soonest() <= 300
    api.fault = lambda *_: None
    await world.later(299)
    api.edit("Agent", "poet", {"metadata": {"annotations": {"a": "b"}}})
    await world.settle()
    assert difference(world)[1] == "NotExpanded", "no earlier pass tries it"
    await world.later(5)
    assert difference(world) is None
    assert claim_spec(api)["resources"]["requests"] == {"storage": "2Gi"}


async def test_growth_of_an_unbound_claim_waits_for_its_volume(world, api, objects):
    await start_agent(world, api, objects, phase="Pending", memory={"storage": {"size": "1Gi"}})
    await change_agent(world, api, objects, memory={"storage": {"size": "2Gi"}})
    assert claim_writes(api) == []
    assert "the claim is not bound yet, and grows as soon as it is" in difference(world)[2]
    api.set_status("PersistentVolumeClaim", CLAIM, {"phase": "Bound"})
    await world.settle()
    assert difference(world) is None
    assert claim_spec(api)["resources"]["requests"] == {"storage": "2Gi"}


@pytest.mark.parametrize(
    ("storage", "reason", "limit"),
    [
        pytest.param({"size": "1Gi"}, "SizeDiffers", int(5 * 2**30 * 0.8), id="the spec states a smaller size"),
        pytest.param({}, None, int(5 * 2**30 * 0.8), id="the spec states no size"),
        pytest.param({"size": "5120Mi"}, None, int(5 * 2**30 * 0.8), id="the spec states the same in another unit"),
    ],
)
async def test_claim_larger_than_the_spec_is_accepted(world, api, objects, storage, reason, limit):
    await start_agent(world, api, objects, memory={"storage": {**storage, "size": "1Gi"}})
    api.edit("PersistentVolumeClaim", CLAIM, {"spec": {"resources": {"requests": {"storage": "5Gi"}}}})
    await world.settle()
    await change_agent(world, api, objects, memory={"storage": storage})
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"
    assert (difference(world) or (None, None))[1] == reason
    assert parse_quantity(claim_spec(api)["resources"]["requests"]["storage"]) == 5 * 2**30
    assert limit_of_memory(api) == limit


async def test_restored_claim_keeps_its_access_modes_and_its_class(world, api, objects):
    labels = {"app.kubernetes.io/managed-by": "fleetwright", "fleetwright.dev/agent": "poet"}
    spec = {
        "accessModes": ["ReadWriteMany"],
        "storageClassName": "restored",
        "resources": {"requests": {"storage": "3Gi"}},
    }
    body = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "spec": spec}
    api.put({**body, "metadata": {"name": CLAIM, "namespace": "shop", "labels": labels}})
    await start_agent(world, api, objects, memory={"storage": {"storageClassName": "fast"}})
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"
    assert claim_spec(api) == spec
    assert difference(world)[1] == "ClassDiffers"


async def test_changed_class_is_reported_and_can_be_reverted(world, api, objects):
    await start_agent(world, api, objects, memory={"storage": {"storageClassName": "slow"}})
    await change_agent(world, api, objects, memory={"storage": {"storageClassName": "fast"}})
    status, reason, message = difference(world)
    assert (status, reason) == ("True", "ClassDiffers")
    assert "has the class 'slow', and the class of a claim cannot change. Set it to 'slow'" in message
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"
    await change_agent(world, api, objects, memory={"storage": {"storageClassName": "slow"}})
    assert difference(world) is None
    await change_agent(world, api, objects, memory={})
    assert claim_spec(api)["storageClassName"] == "slow", "an immutable field stays in the manifest"
    assert difference(world) is None


async def test_added_class_does_not_replace_the_default_class(world, api, objects):
    await start_agent(world, api, objects)
    api.edit("PersistentVolumeClaim", CLAIM, {"spec": {"storageClassName": "default"}})
    await world.settle()
    assert claim_writes(api) == [f"apply PersistentVolumeClaim {CLAIM}"], "the default class is not written"
    await change_agent(world, api, objects, memory={"storage": {"storageClassName": "fast"}})
    assert difference(world)[1] == "ClassDiffers"
    assert claim_spec(api)["storageClassName"] == "default"


async def test_stated_limit_larger_than_the_volume_is_lowered(world, api, objects):
    await start_agent(world, api, objects, memory={"storage": {"size": "1Gi"}})
    refuse_growth(api)
    await change_agent(world, api, objects, memory={"storage": {"size": "4Gi"}, "maxBytes": "3Gi"})
    assert limit_of_memory(api) == int(2**30 * 0.8)


async def test_workspace_whose_volume_cannot_grow_keeps_running(world, api, objects):
    await start_agent(world, api, objects, workspace={"image": "debian", "storage": {"size": "5Gi"}})
    refuse_growth(api, "poet-workspace")
    await change_agent(world, api, objects, workspace={"image": "debian", "storage": {"size": "9Gi"}})
    assert difference(world)[2].startswith("spec.workspace.storage.size is 9Gi")
    assert claim_spec(api, "poet-workspace")["resources"]["requests"] == {"storage": "5Gi"}
    assert world.conditions("Agent", "poet")["WorkspaceReady"][1] not in {"Forbidden", "Rejected"}
