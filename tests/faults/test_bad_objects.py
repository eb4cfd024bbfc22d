"""O8, O11, O12, O14: objects that should not be as they are, and hands that are not ours."""

import asyncio
import copy
from pathlib import Path

import pytest
import yaml
from e2e.faults import flows
from e2e.plane.client import Refusal, path_of

CRDS = Path(__file__).parents[2] / "crds"
GOOD_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}
MALFORMED = {
    "Agent": {
        "no-spec": {},
        "spec-is-a-list": [],
        "model-is-a-word": {"instructions": "Help.", "model": "m"},
        "instructions-are-a-number": {"instructions": 7, "model": GOOD_MODEL},
        "peers-are-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "peers": "helper"},
        "a-peer-has-no-name": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{}]},
        "a-skill-is-a-number": {"instructions": "Help.", "model": GOOD_MODEL, "skills": [5]},
        "memory-is-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "memory": "much"},
        "compaction-is-a-list": {"instructions": "Help.", "model": GOOD_MODEL, "compaction": ["Always"]},
        "auth-is-a-word": {"instructions": "Help.", "model": GOOD_MODEL, "auth": "none"},
    },
    "Skill": {
        "no-source": {},
        "empty-source": {"source": {}},
        "no-files": {"source": {"inline": {}}},
        "files-are-a-list": {"source": {"inline": {"files": []}}},
        "a-nameless-config-map": {"source": {"configMap": {}}},
    },
    "McpServer": {
        "nowhere": {},
        "no-url": {"remote": {}},
        "url-is-a-number": {"remote": {"url": 5}},
        "image-is-a-list": {"workload": {"image": ["x"]}},
        "a-port-is-a-word": {"workload": {"image": "docker.io/example/tools:1", "port": "http"}},
    },
}


@pytest.fixture
async def without_rules(stand):
    """CRDs that take anything, as an older or a hand-made one might; the real ones are put back."""
    real = {path.stem: yaml.safe_load(path.read_text()) for path in CRDS.glob("*.yaml")}
    for body in real.values():
        relaxed = copy.deepcopy(body)
        anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        relaxed["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = anything
        await stand.client.apply(relaxed)
    await asyncio.sleep(2)
    yield
    for body in real.values():
        await stand.client.apply(body)
    await asyncio.sleep(2)


async def test_o11_a_malformed_object_is_told_of_and_nothing_crashes_or_spins(stand, without_rules):
    """O11: every shape that validation would have refused, some there before the operator starts."""
    space = await stand.space()
    for number, (kind, shapes) in enumerate(MALFORMED.items()):
        for name, spec in list(shapes.items())[number % 2 :: 2]:
            await _put(stand, kind, space, name, spec)
    operator = await stand.operator(space, FLEETWRIGHT_STALLED_SECONDS="30")
    for kind, shapes in MALFORMED.items():
        for name, spec in shapes.items():
            await _put(stand, kind, space, name, spec)
    await stand.agent(space)
    await stand.programmed(space, "poet")

    def all_told() -> bool:
        return all(_is_told(stand, kind, space, name) for kind, shapes in MALFORMED.items() for name in shapes)

    await stand.until(space, all_told, "every malformed object has a condition that is false")
    passes = {kind: await operator.passes(kind) for kind in MALFORMED}
    await asyncio.sleep(10)
    for kind, shapes in MALFORMED.items():
        assert await operator.passes(kind) - passes[kind] <= len(shapes), "looked at again rarely"
        assert passes[kind] <= 12 * (len(shapes) + 1)
    assert operator.process.exit_code is None

    await _put(stand, "Agent", space, "no-spec", flows.agent("x", space)["spec"])
    await stand.programmed(space, "no-spec")


async def _put(stand, kind: str, space: str, name: str, spec: object) -> None:
    body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": space}}
    found = await stand.client.find(kind, space, name)
    if found is None:
        await stand.client.request("POST", path_of(kind, space), {**body, "spec": spec})
    else:
        await stand.client.request("PUT", path_of(kind, space, name), {**found, "spec": spec})


def _is_told(stand, kind: str, space: str, name: str) -> bool:
    stages = ("Accepted", "ReferencesResolved", "Programmed")
    return any(stand.condition(kind, space, name, stage).get("status") == "False" for stage in stages)


async def test_o11_references_that_go_in_circles_come_to_rest(stand):
    """O11: three agents that name each other as peers, and one peer that does not exist until later."""
    space = await stand.space()
    operator = await stand.operator(space)
    ring = {"a": ["b", "late"], "b": ["c"], "c": ["a"]}
    for name, peers in ring.items():
        await stand.agent(space, name, peers=[{"name": peer} for peer in peers])
    await stand.programmed(space, "b", "c")
    assert "'late'" in stand.condition("Agent", space, "a", "ReferencesResolved")["message"]
    await stand.quiet(space)
    passes = await operator.passes()
    assert passes <= 60, "a bounded number of passes"
    await asyncio.sleep(5)
    # What waits for a person is looked at again every two seconds here.
    assert await operator.passes() - passes <= 6
    await stand.agent(space, "late")
    await stand.programmed(space, "a", "late")


LONG = "a" + "b" * 61 + "c"
SIZES = [
    pytest.param("Agent", LONG, flows.agent("x", "")["spec"], "Programmed", id="O12: a name of 63 characters"),
    pytest.param(
        "Agent", "poet", {"instructions": "ü" * 131072, "model": GOOD_MODEL}, "Programmed",
        id="O12: the longest instructions, each letter two bytes",
    ),
    pytest.param(
        "Agent", "poet", {"instructions": "Sprich: \u202e\u0000x".replace("\u0000", ""), "description": "🦊" * 500,
                          "model": GOOD_MODEL}, "Programmed", id="O12: foxes and a mark that turns the line",
    ),
    pytest.param(
        "Skill", "haiku",
        {"source": {"inline": {"files": {"SKILL.md": "---\nname: haiku\ndescription: D.\n---\nx",
                                         **{f"f{n}.txt": "y" * 500_000 for n in range(2)}}}}}, "Programmed",
        id="O12: a skill of a million letters",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "name", "spec", "stage"), SIZES)
async def test_what_is_as_large_as_may_be_is_carried_out(stand, kind, name, spec, stage):
    space = await stand.space()
    operator = await stand.operator(space)
    before = operator.process.memory_mb()
    await _put(stand, kind, space, name, spec)
    await stand.programmed(space, name, kind=kind)
    assert operator.process.memory_mb() - before < 60
    assert await operator.passes(kind) <= 20


async def test_o12_five_hundred_tools_are_refused_by_name(stand):
    """O12: at the earliest place, with the field."""
    space = await stand.space()
    tools = [f"tool-{number}" for number in range(500)]
    with pytest.raises(Refusal, match=r"spec.mcpServers\[0\].tools.allow"):
        await stand.agent(space, mcpServers=[{"name": "tools", "tools": {"allow": tools}}])


async def test_o12_two_agents_that_claim_one_secret_are_told_apart(stand):
    """O12: `a` has a client `auth`, and `a-client` an auth Secret: both are called a-client-auth."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space, "a", auth={"clients": [{"name": "auth"}]})
    await stand.programmed(space, "a")
    await stand.agent(space, "a-client")

    def in_conflict() -> bool:
        return "'a'" in stand.condition("Agent", space, "a-client", "Conflict").get("message", "")

    await stand.until(space, in_conflict, "the conflict, with the owner's name")
    await stand.quiet(space)
    assert stand.condition("Agent", space, "a", "Programmed")["status"] == "True"
    assert await operator.passes() <= 40


async def test_o8_children_without_any_record_of_their_managers_are_taken_up_again(stand):
    """O8: managedFields wiped from every child."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.programmed(space, "poet")
    await stand.quiet(space)
    before = stand.essence(space)
    writes = operator.plan.total_writes(space)
    kinds = ("ServiceAccount", "Service", "NetworkPolicy", "Deployment")
    for kind in kinds:
        await stand.client.merge(kind, space, "poet", {"metadata": {"managedFields": [{}]}})
    await stand.until(space, lambda: stand.essence(space) == before, "as before, our fields recorded again", seconds=20)
    await stand.quiet(space)
    assert operator.plan.total_writes(space) - writes <= 2 * len(kinds)


async def test_o14_a_field_that_another_manager_took_is_taken_back_without_a_fight(stand):
    """O14: an autoscaler's replicas, and an apply by force of a port of ours."""
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space)
    await stand.programmed(space, "poet")
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
        service, deployment = (stand.mirror.find(kind, space, "poet") for kind in ("Service", "Deployment"))
        return service["spec"]["ports"][0]["targetPort"] == "a2a" and deployment["spec"]["replicas"] == 1

    await stand.until(space, ours_again, "as we want it", seconds=20)
    await stand.quiet(space)
    fresh = operator.plan.writes[space] - writes
    assert fresh["apply deployments/poet"] < 3
    assert fresh["apply services/poet"] < 3
    assert ours_again()
