"""The reconcile loop on the in-memory API: convergence, writes, and recovery from a fault at every write."""

import asyncio
import base64
import itertools
import json

import pytest

from fleetwright_api import names
from fleetwright_kube.errors import ApiError, ConflictError, api_error
from fleetwright_kube.timestamps import format_timestamp
from fleetwright_operator.kinds.resources import WATCHED

SPEC = {
    "skills": [{"name": "haiku"}],
    "mcpServers": [{"name": "tools"}],
    "peers": [{"name": "helper"}],
    "model": {"name": "m", "baseURL": "https://models.example.com/v1", "apiKeySecretRef": {"name": "key"}},
}


def fleet(api, objects) -> None:
    api.put(objects.secret())
    api.put(objects.skill())
    api.put(objects.server())
    api.put(objects.agent("helper"))
    api.put(objects.agent("poet", **SPEC))


async def test_fleet_is_written_once_without_any_read(world, api, objects):
    fleet(api, objects)
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["Programmed"][0] == "True"
    children = [write for write in api.writes if not write.startswith("status")]
    assert len(children) - len(set(children)) <= 1, "only the callee's Secret is written twice"
    assert api.gets == []


async def test_agent_is_ready_when_its_revision_is_rolled_out(world, api, objects):
    fleet(api, objects)
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][:2] == ("False", "RollingOut")
    api.roll_out("poet")
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"


async def test_clients_and_administrators_change_without_a_new_revision(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    before = api.find("Agent", "poet")["status"]["revision"]
    template = api.find("Deployment", "poet")["spec"]["template"]
    auth = {"clients": [{"name": "default"}, {"name": "ops"}], "administrators": ["ops"]}
    api.put(objects.agent(auth=auth))
    await world.settle()
    assert api.find("Agent", "poet")["status"]["revision"] == before
    assert api.find("Deployment", "poet")["spec"]["template"] == template
    listed = base64.b64decode(api.find("Secret", "poet-auth")["data"][names.ADMINISTRATORS_KEY])
    assert json.loads(listed) == {"version": 1, "administrators": ["ops"]}
    api.put(objects.agent(auth={**auth, "administrators": []}))
    await world.settle()
    assert names.ADMINISTRATORS_KEY not in api.find("Secret", "poet-auth")["data"]


async def test_ready_follows_the_current_revision_not_the_old_pod(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"
    api.put(objects.agent(instructions="Write better."))
    await world.settle()
    (probe,) = api.probes("poet")
    api.end_pod(probe)
    await world.settle()
    told = world.conditions("Agent", "poet")
    assert (told["Programmed"][0], told["Ready"][:2]) == ("True", ("False", "RollingOut")), (
        "the status comes from the old pod"
    )
    generation = api.find("Deployment", "poet")["metadata"]["generation"]
    old = {"replicas": 1, "availableReplicas": 1, "observedGeneration": generation}
    api.set_status("Deployment", "poet", old)
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][:2] == ("False", "RollingOut"), "the new pod does not exist yet"
    api.roll_out("poet")
    await world.settle()
    assert world.conditions("Agent", "poet")["Ready"][0] == "True"


async def test_image_that_never_answers_is_named_at_the_startup_deadline(world, api, objects):
    """No event comes at the deadline: the kubelet may wait minutes for the end of the container."""
    api.put(objects.agent(image="docker.io/library/nginx:1"))
    await world.start()
    await world.settle()
    generation = api.find("Deployment", "poet")["metadata"]["generation"]
    api.set_status("Deployment", "poet", {"observedGeneration": generation, "replicas": 1, "updatedReplicas": 1})
    running = {"running": {"startedAt": format_timestamp(world.moment)}}
    container = {"name": "agent", "image": "docker.io/library/nginx:1", "started": False, "state": running}
    labels = {names.MANAGED_BY: names.FIELD_MANAGER, names.AGENT_LABEL: "poet"}
    metadata = {"name": "poet-1", "namespace": "shop", "labels": labels}
    api.put({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "status": {"containerStatuses": [container]}})
    await world.settle()
    await world.later(179)
    assert world.conditions("Agent", "poet")["Available"][:2] == ("False", "RollingOut")
    await world.later(1)
    status, reason, message = world.conditions("Agent", "poet")["Available"]
    assert (status, reason) == ("False", "StartupProbeFailed")
    assert "image 'docker.io/library/nginx:1' did not answer GET /healthz on port 7871" in message


async def test_restart_requests_only_lists(world, api, objects, make_world):
    fleet(api, objects)
    await world.start()
    await world.settle()
    await world.stop()
    before = api.versions()
    api.writes.clear()
    another = make_world(api)
    await another.start()
    await another.settle()
    await another.stop()
    assert (api.writes, api.gets) == ([], [])
    assert api.versions() == before


async def _reference(make_world, new_api, objects) -> tuple[dict, int]:
    api = new_api()
    fleet(api, objects)
    world = make_world(api)
    await world.start()
    await world.settle()
    await world.stop()
    return api.snapshot(), len(api.writes)


FAULTS = [
    pytest.param(lambda: api_error(500, "internal"), id="an internal error"),
    pytest.param(lambda: ConflictError("modified"), id="a conflict"),
    pytest.param(lambda: api_error(429, "slow down", retry_after=0.05), id="too many requests"),
    pytest.param(lambda: TimeoutError("no answer"), id="no answer"),
]


@pytest.mark.parametrize("fault", FAULTS)
async def test_fleet_converges_after_a_fault_at_any_write(api, objects, make_world, fault):
    reference, count = await _reference(make_world, type(api), objects)
    for number in range(0, count, 2):
        faulty = type(api)()
        fleet(faulty, objects)
        faulty.fault = lambda now, what, at=number: fault() if now == at else None
        world = make_world(faulty)
        await world.start()
        await world.settle()
        await world.stop()
        assert _without_tokens(faulty.snapshot()) == _without_tokens(reference), f"after a fault at write {number}"
        assert len(faulty.writes) <= 2 * count


async def test_fleet_converges_after_a_lost_response_to_any_write(api, objects, make_world):
    reference, count = await _reference(make_world, type(api), objects)
    for number in range(1, count, 3):
        faulty = type(api)()
        fleet(faulty, objects)
        faulty.lose = lambda now, what, at=number: now == at
        world = make_world(faulty)
        await world.start()
        await world.settle()
        await world.stop()
        assert _without_tokens(faulty.snapshot()) == _without_tokens(reference), f"after losing answer {number}"


async def test_failing_agent_backs_off_without_delaying_others(world, api, objects):
    api.fault = lambda number, what: ApiError("broken", code=500) if what.endswith("Deployment poison") else None
    api.put(objects.agent("poison"))
    for number in range(20):
        api.put(objects.agent(f"good-{number}"))
    await world.start()
    good = [f"good-{number}" for number in range(20)]
    await world.until(lambda: all("Programmed" in world.conditions("Agent", name) for name in good))
    assert {world.conditions("Agent", name)["Programmed"][0] for name in good} == {"True"}
    tries = sum(write.endswith("Deployment poison") for write in api.writes)
    assert 1 <= tries <= 6


REFUSALS = [
    pytest.param(422, "Rejected", id="a rule that somebody made"),
    pytest.param(403, "Forbidden", id="a right that is missing"),
]


@pytest.mark.parametrize(("code", "reason"), REFUSALS)
async def test_refused_write_is_retried_within_two_seconds_and_then_less_often(world, api, objects, code, reason):
    """O2, O3: no event announces that the API server accepts the write again."""
    api.fault = lambda _, what: api_error(code, "no") if what.endswith("Deployment poet") else None
    api.put(objects.agent())
    await world.start()
    await world.until(lambda: world.conditions("Agent", "poet").get("Programmed", ("",))[0] == "False")
    assert world.conditions("Agent", "poet")["Programmed"][1] == reason
    for pause in (2.0, 4.0):
        await world.until(lambda pause=pause: world.soonest() <= pause)
        await asyncio.sleep(pause)
    api.fault = lambda *_: None
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][0] == "True", seconds=20)


async def test_phase_tells_a_blocked_agent_that_serves_from_one_that_fails(world, api, objects):
    """A reference is deleted, and a write is refused, while an earlier revision answers."""
    fleet(api, objects)
    api.put(objects.agent("lonely", skills=[{"name": "absent"}]))
    await world.start()
    await world.settle()
    api.roll_out("poet")
    await world.settle()
    assert api.find("Agent", "poet")["status"]["phase"] == "Running"
    api.remove("Skill", "haiku")
    await world.settle()
    status = api.find("Agent", "poet")["status"]
    assert (status["phase"], status["reason"]) == ("Blocked", "SkillNotFound")
    assert world.conditions("Agent", "poet")["Ready"][:2] == ("False", "SkillNotFound")
    assert api.find("Agent", "lonely")["status"]["phase"] == "Failed", "nothing of it serves"
    api.put(objects.skill())
    await world.settle()
    assert api.find("Agent", "poet")["status"]["phase"] == "Running"
    api.fault = lambda _, what: api_error(403, "exceeded quota") if " ConfigMap poet-" in what else None
    api.put(objects.agent("poet", **SPEC, description="Another one."))
    await world.until(lambda: world.conditions("Agent", "poet")["Programmed"][1] == "Forbidden")
    assert api.find("Agent", "poet")["status"]["phase"] == "Blocked"


async def test_conflict_is_retried_once_a_minute(world, api, objects):
    api.put({"kind": "Service", "metadata": {"name": "poet", "namespace": "shop"}, "spec": {"selector": {}}})
    api.put(objects.agent())
    await world.start()
    await world.settle()
    assert world.conditions("Agent", "poet")["Conflict"][0] == "True"
    assert 50 < world.soonest() <= 60


async def test_owned_field_edits_are_reverted_and_others_kept(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    api.edit("Deployment", "poet", {"spec": {"replicas": 3}})
    await world.settle()
    assert api.find("Deployment", "poet")["spec"]["replicas"] == 1

    api.writes.clear()
    api.edit("Deployment", "poet", {"spec": {"minReadySeconds": 5}})
    await world.settle()
    assert api.find("Deployment", "poet")["spec"]["minReadySeconds"] == 5
    assert api.writes == []


async def test_missed_deletion_is_found_by_the_next_list(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    api.remove("Service", "poet", silently=True)
    await world.settle()
    assert not api.has("Service", "poet")
    await world.manager.cache_sync.informer.list_all(WATCHED)
    await world.settle()
    assert api.has("Service", "poet")


async def test_refused_status_write_is_repeated_even_if_unchanged(world, api, objects):
    """O9: the event of the deletion was lost. Only the answer to a status write shows that the owner is gone."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    api.writes.clear()
    refused = iter([api_error(500, "internal")])
    api.fault = lambda _, what: next(refused, None) if what == "status Agent poet" else None
    api.remove("Service", "poet")
    await world.settle()
    assert api.writes.count("status Agent poet") == 2
    assert api.has("Service", "poet")


async def test_child_with_stripped_labels_is_adopted_after_a_list(world, api, objects):
    """O8: the list is newer than the child that it lacks."""
    api.put(objects.agent())
    await world.start()
    await world.settle()
    names = {"Secret": "poet-client-default", "Deployment": "poet"}
    before = {kind: api.find(kind, name) for kind, name in names.items()}
    for kind, name in names.items():
        api.edit(kind, name, {"metadata": {"labels": {"app.kubernetes.io/managed-by": None}}})
    await world.manager.cache_sync.informer.list_all(WATCHED)
    await world.settle()
    for kind, name in names.items():
        assert api.find(kind, name)["metadata"]["labels"] == before[kind]["metadata"]["labels"]
    assert api.find("Secret", names["Secret"])["data"] == before["Secret"]["data"]


async def test_terminating_namespace_gets_no_writes(world, api, objects):
    """O10: a namespace in deletion."""
    api.put({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "namespace": ""}})
    api.put(objects.agent())
    await world.start()
    await world.settle()
    api.edit("Namespace", "shop", {"metadata": {"deletionTimestamp": "2026-03-01T12:00:00Z"}}, namespace="")
    await world.settle()
    api.writes.clear()
    api.remove("Service", "poet")
    api.remove("ServiceAccount", "poet")
    await world.settle()
    assert api.writes == []


async def test_foreign_object_is_read_as_metadata_only_and_unchanged(world, api, objects):
    api.put(objects.secret("poet-auth", mine="eA=="))
    api.put(objects.agent())
    await world.start()
    await world.until(lambda: "Conflict" in world.conditions("Agent", "poet"))
    assert api.find("Secret", "poet-auth")["data"] == {"mine": "eA=="}
    assert world.conditions("Agent", "poet")["Programmed"] == (
        "False",
        "Conflict",
        "Secret 'poet-auth' already exists and is not managed by Fleetwright. Rename or delete it",
    )
    assert world.conditions("Agent", "poet")["Conflict"][0] == "True"


async def test_conflict_names_every_foreign_object_at_once(world, api, objects):
    names = [
        ("ServiceAccount", "poet"),
        ("Secret", "poet-auth"),
        ("Secret", "poet-client-default"),
        ("NetworkPolicy", "poet"),
        ("Service", "poet"),
        ("Deployment", "poet"),
    ]
    for kind, name in names:
        template = {"metadata": {}, "spec": {}}
        api.put({"kind": kind, "metadata": {"name": name, "namespace": "shop"}, "spec": {"template": template}})
    before = api.versions()
    api.put(objects.agent())
    await world.start()
    await world.until(lambda: "Conflict" in world.conditions("Agent", "poet"))
    _, reason, message = world.conditions("Agent", "poet")["Programmed"]
    assert reason == "Conflict"
    assert sorted(message.split("; ")) == sorted(
        f"{kind} {name!r} already exists and is not managed by Fleetwright. Rename or delete it" for kind, name in names
    )
    after = api.versions()
    assert {place: after[place] for place in before} == before


async def test_deployment_is_written_after_everything_it_mounts(world, api, objects):
    api.put(objects.agent())
    await world.start()
    await world.settle()
    writes = [write.removeprefix("apply ") for write in api.writes]
    after = writes[writes.index("Deployment poet") :]
    assert {write.split()[0] for write in after} <= {"Deployment", "Service", "status"}


async def test_fake_api_write_cap_stops_a_write_storm(make_world, api, objects):
    api = type(api)(write_cap=300)
    api.put(objects.agent())
    edits = itertools.count()
    api.listeners.append(lambda event, kind, body: _undo(api, body, next(edits)) if kind == "Deployment" else None)
    world = make_world(api)
    await world.start()
    with pytest.raises(BaseException, match=r"301 writes; the last ones: .*Deployment poet"):
        await world.settle()
    await world.stop()


def _undo(api, body, number: int) -> None:
    """Change a field of the operator after each of its writes, as a competing controller does."""
    managers = [each["manager"] for each in body["metadata"]["managedFields"] if each["fieldsV1"].get("f:spec")]
    if managers[-1] == "fleetwright":
        api.edit("Deployment", "poet", {"spec": {"replicas": 2 + number % 2}})


def _without_tokens(snapshot: dict) -> dict:
    """Return the snapshot without the values of tokens, which differ between runs."""
    clean = {}
    for key, body in snapshot.items():
        if key.startswith("Secret") and "data" in body:
            body = {**body, "data": sorted(body["data"])}
            body["metadata"] = {key: value for key, value in body["metadata"].items() if key != "annotations"}
        for owner in body["metadata"].get("ownerReferences", ()):
            owner.pop("uid", None)
        clean[key] = body
    return clean
