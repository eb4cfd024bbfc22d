"""O8, O14: other writers change the operator's objects."""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from e2e.control_plane.client import APPLY, MERGE, Refusal, path_of
from e2e.control_plane.normalised_state import Reader
from e2e.faults import flows
from tests.support.machine import ceiling

JSON_PATCH = "application/json-patch+json"
Object = dict[str, Any]
Place = tuple[str | int, ...]


async def test_o8_children_without_managed_fields_are_adopted_again(stand):
    """O8: managedFields is removed from every child."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    before = stand.state(space)
    writes = operator.plan.total_writes(space)
    kinds = ("ServiceAccount", "Service", "NetworkPolicy", "Deployment")
    for kind in kinds:
        await stand.client.merge(kind, space, "poet", {"metadata": {"managedFields": [{}]}})
    await stand.until(space, lambda: stand.state(space) == before, "as before, our fields recorded again")
    await stand.quiet(space)
    assert operator.plan.total_writes(space) - writes <= 2 * len(kinds)


@pytest.mark.exhaustive
@pytest.mark.timeout(4 * ceiling())  # More than 300 edits, each with a wait of its own.
async def test_o8_edited_or_removed_child_fields_are_restored(stand, capsys):
    """O8: edit and remove each owned field, one after another, of all children of a fleet concurrently.

    The key of a list item is excluded: an item with another key is another item, which the operator does not own.
    """
    stand.most_writes = 500  # one repair for each field of a child
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.fleet(space)
    goes: Object = {"memory": {"storage": {"retain": False}}}  # A retained volume has no owner, only labels.
    await stand.agent(space, "helper", **goes)
    await stand.agent(space, **flows.USES, **goes)
    await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready")
    await stand.quiet(space)
    children = stand.in_use(space)
    healed = [
        took for each in await asyncio.gather(*(_walk(stand, space, child) for child in children)) for took in each
    ]
    await stand.quiet(space)
    ordered = sorted(healed)
    with capsys.disabled():
        shown = f"half within {ordered[len(ordered) // 2][0]:.2f} s, the last within {ordered[-1][0]:.2f} s"
        print(f"\n  {len(healed)} edits of {len(children)} children healed: {shown} ({ordered[-1][1]})")
    assert {child["kind"] for child in children} >= {"Deployment", "NetworkPolicy", "Secret", "ConfigMap", "Service"}
    assert len(healed) > 300
    assert operator.process.exit_code is None


async def _walk(stand, space: str, child: Object) -> list[tuple[float, str]]:
    """Return how long the operator took to revert each accepted edit, with the edit."""
    kind, name = child["kind"], child["metadata"]["name"]
    before, path, healed = _state(child, space), f"{path_of(kind, space, name)}?fieldManager=somebody", []
    for place, value in list(_owned(child)):
        for edit in _edits(kind, place, value):
            patch = json.dumps([{**edit, "path": _pointer(place)}]).encode()
            try:
                edited = await stand.client.send("PATCH", path, patch, content=JSON_PATCH)
            except Refusal as refusal:
                if refusal.status not in {400, 422}:
                    raise
                continue
            began = time.monotonic()

            def as_before(version: int = int(edited["metadata"]["resourceVersion"])) -> bool:
                now = stand.cache.find(kind, space, name)
                seen = now is not None and int(now["metadata"]["resourceVersion"]) >= version
                return seen and _state(now, space) == before

            await stand.until(space, as_before, f"{kind} {name} after {patch!r}")
            healed.append((time.monotonic() - began, f"{kind} {name} {patch!r}"))
    return healed


def _pointer(place: Place) -> str:
    return "/" + "/".join(str(step).replace("~", "~0").replace("/", "~1") for step in place)


def _state(child: Object, space: str) -> Object:
    """Return the state, or an empty mapping while it lacks the operator's labels."""
    parts = Reader(generations=()).parts([child], namespace=space).values()
    return {key: value for part in parts for key, value in part.items() if key != "status"}


def _edits(kind: str, place: Place, value: Any) -> Iterator[Object]:
    yield {"op": "remove"}
    if isinstance(value, bool | int):
        yield {"op": "replace", "value": not value if isinstance(value, bool) else value + 1}
    elif isinstance(value, str):
        of_secret = kind == "Secret" and place[0] == "data"
        yield {"op": "replace", "value": base64.b64encode(b"planted").decode() if of_secret else f"{value}x"}


def _owned(child: Object) -> Iterator[tuple[Place, Any]]:
    """Return the paths and values of the fields that the operator has applied."""
    for manager in child["metadata"]["managedFields"]:
        if (manager["manager"], manager["operation"]) == ("fleetwright", "Apply"):
            yield from _leaves(manager["fieldsV1"], child, ())


def _leaves(fields: Object, value: Any, way: Place, keys: frozenset[str] = frozenset()) -> Iterator[tuple[Place, Any]]:
    inner = {field: below for field, below in fields.items() if field != "."}
    if not inner and way and way[-1] not in keys:
        yield way, value
    for field, below in inner.items():
        sort, _, named = field.partition(":")
        if sort == "f" and named in value:
            yield from _leaves(below, value[named], (*way, named), keys)
        elif sort == "k":
            wanted = json.loads(named).items()
            at = next(number for number, item in enumerate(value) if wanted <= item.items())
            yield from _leaves(below, value[at], (*way, at), frozenset(json.loads(named)))


async def test_o8_foreign_replacement_of_a_child_is_a_named_conflict(stand):
    """O8: a Service is deleted, and another writer creates one of that name before the operator does."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    head = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "poet", "namespace": space}}
    theirs = {**head, "spec": {"selector": {"app": "other"}, "ports": [{"port": 1234, "protocol": "TCP"}]}}

    async def be_first(namespace: str, name: str) -> None:
        if name.endswith(" services/poet") and await stand.client.find("Service", namespace, "poet") is None:
            await stand.client.request("POST", path_of("Service", namespace), theirs)

    operator.proxy.first = be_first
    passes = await operator.passes()
    await stand.client.delete("Service", space, "poet")

    def in_conflict() -> bool:
        return "Service 'poet'" in stand.condition("Agent", space, "poet", "Conflict").get("message", "")

    await stand.until(space, in_conflict, "the conflict")
    await stand.quiet(space)
    assert stand.cache.find("Service", space, "poet")["spec"]["selector"] == {"app": "other"}
    assert await operator.passes() - passes <= 20

    operator.proxy.first = _as_usual
    await stand.client.delete("Service", space, "poet")
    await stand.wait_until_programmed(space, "poet")
    assert stand.cache.find("Service", space, "poet")["spec"]["selector"] != {"app": "other"}


async def _as_usual(_namespace: str, _name: str) -> None:
    return


async def test_o14_field_of_another_manager_is_reclaimed_once(stand):
    """O14: an autoscaler sets replicas, and another manager force-applies a port of the operator."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    writes = operator.plan.writes[space].copy()
    head = {"metadata": {"name": "poet", "namespace": space}}
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", **head, "spec": {"replicas": 3}}
    await stand.client.apply(scaled, manager="autoscaler")
    port = {"name": "a2a", "port": 80, "targetPort": 81, "protocol": "TCP"}
    await stand.client.apply(
        {"apiVersion": "v1", "kind": "Service", **head, "spec": {"ports": [port]}}, manager="somebody"
    )

    def ours_again() -> bool:
        service, deployment = (stand.cache.find(kind, space, "poet") for kind in ("Service", "Deployment"))
        return service["spec"]["ports"][0]["targetPort"] == "a2a" and deployment["spec"]["replicas"] == 1

    await stand.until(space, ours_again, "as we want it")
    await stand.quiet(space)
    fresh = operator.plan.writes[space] - writes
    assert fresh["apply deployments/poet"] < 3
    assert fresh["apply services/poet"] < 3
    assert ours_again()

    # `kubectl edit` and `kubectl patch` write like this. The operator reverts its own fields and keeps theirs.
    writes = operator.plan.writes[space].copy()
    service = await stand.client.find("Service", space, "poet")
    service["spec"]["ports"][0]["targetPort"] = 82
    service["metadata"]["annotations"] = {"somebody.example.com/note": "kept"}
    await stand.client.request("PUT", path_of("Service", space, "poet") + "?fieldManager=kubectl-edit", service)
    patch = {"metadata": {"labels": {"team": "web"}}, "spec": {"replicas": 2, "revisionHistoryLimit": 7}}
    path = path_of("Deployment", space, "poet") + "?fieldManager=kubectl-patch"
    await stand.client.request("PATCH", path, patch, content=MERGE)
    await stand.until(space, ours_again, "as we want it, again")
    await stand.quiet(space)
    fresh = operator.plan.writes[space] - writes
    assert fresh["apply deployments/poet"] < 3
    assert fresh["apply services/poet"] < 3
    assert stand.cache.find("Service", space, "poet")["metadata"]["annotations"]["somebody.example.com/note"] == "kept"
    assert stand.cache.find("Deployment", space, "poet")["metadata"]["labels"]["team"] == "web"


async def test_o14_agent_edited_between_applies_follows_the_last_write(stand):
    """O14: `kubectl edit` changes an applied spec. The field belongs to the editor until a forced apply."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    writes = operator.plan.writes[space].copy()
    first = stand.cache.find("Agent", space, "poet")["status"]["revision"]
    for number in range(2):
        await _edit(stand, space, f"Help as edited {number}.")
        await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    revision = stand.cache.find("Agent", space, "poet")["status"]["revision"]
    path = path_of("Agent", space, "poet") + "?fieldManager=person"
    with pytest.raises(Refusal, match="conflict"):
        await stand.client.request("PATCH", path, flows.agent("poet", space), content=APPLY)
    await stand.quiet(space)
    assert stand.cache.find("Agent", space, "poet")["status"]["revision"] == revision, "a refused apply changes nothing"
    await stand.agent(space)
    await stand.wait_until_programmed(space, "poet")
    await stand.quiet(space)
    assert stand.cache.find("Agent", space, "poet")["status"]["revision"] == first
    assert (operator.plan.writes[space] - writes)["apply deployments/poet"] <= 2 * 3
    assert stand.cache.find("Agent", space, "poet")["spec"]["instructions"] == "Help."


async def _edit(stand, space, instructions):
    """Write as `kubectl edit` does, with a retry if the operator wrote its status in the meantime."""
    path = path_of("Agent", space, "poet") + "?fieldManager=kubectl-edit"
    while True:
        edited = await stand.client.find("Agent", space, "poet")
        edited["spec"]["instructions"] = instructions
        try:
            await stand.client.request("PUT", path, edited)
            return
        except Refusal as refusal:
            if refusal.status != 409:
                raise
