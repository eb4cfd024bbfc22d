"""O11, O12: objects that should not be as they are."""

import asyncio
import copy
from pathlib import Path

import pytest
import yaml
from e2e.faults import flows
from e2e.plane.client import Refusal, path_of

CRDS = Path(__file__).parents[2] / "crds"
GOOD_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}
HALF_A_LETTER = '---\nname: half-a-letter\ndescription: "a \\ud800 b"\n---\nx'
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
        "a-peer-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "../../agents/poet"}]},
        "a-peer-is-a-fox": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "H\u0065\u0301lper 🦊"}]},
        "a-peer-has-two-lines": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "a\nb\u2028c"}]},
        "a-peer-turns-the-line": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "\u202etop"}]},
        "a-peer-is-long": {"instructions": "Help.", "model": GOOD_MODEL, "peers": [{"name": "a" * 5000}]},
        "a-namespace-is-a-path": {
            "instructions": "Help.",
            "model": GOOD_MODEL,
            "peers": [{"name": "poet", "namespace": "../x/ü"}],
        },
        "a-skill-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "skills": [{"name": "../Ünï/%2e%2e"}]},
        "a-server-is-a-path": {"instructions": "Help.", "model": GOOD_MODEL, "mcpServers": [{"name": "a/../ß?x=1#y"}]},
        "a-key-is-a-path": {
            "instructions": "Help.",
            "model": {**GOOD_MODEL, "apiKeySecretRef": {"name": "../key", "key": "../../ü"}},
        },
    },
    "Skill": {
        "no-source": {},
        "empty-source": {"source": {}},
        "no-files": {"source": {"inline": {}}},
        "files-are-a-list": {"source": {"inline": {"files": []}}},
        "a-nameless-config-map": {"source": {"configMap": {}}},
        # A request cannot bring half a letter itself: the API server replaces it.
        "half-a-letter": {"source": {"inline": {"files": {"SKILL.md": HALF_A_LETTER}}}},
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
        refused = sum(_is_refused(stand, kind, space, name) for name in shapes)
        # What the API server refuses is asked for again at least a second later, the others rarely.
        assert await operator.passes(kind) - passes[kind] <= len(shapes) + 10 * refused
        assert passes[kind] <= 12 * (len(shapes) + 1)
    assert operator.process.exit_code is None

    await _put(stand, "Agent", space, "no-spec", flows.agent("x", space)["spec"])
    await stand.programmed(space, "no-spec")


async def _put(stand, kind: str, space: str, name: str, spec: object) -> None:
    body = {"apiVersion": "fleetwright.dev/v1alpha1", "kind": kind, "metadata": {"name": name, "namespace": space}}
    while True:
        found = await stand.client.find(kind, space, name)
        try:
            if found is None:
                await stand.client.request("POST", path_of(kind, space), {**body, "spec": spec})
            else:
                await stand.client.request("PUT", path_of(kind, space, name), {**found, "spec": spec})
            return
        except Refusal as refusal:
            if refusal.status != 409:  # the operator wrote its status meanwhile
                raise


def _is_told(stand, kind: str, space: str, name: str) -> bool:
    stages = ("Accepted", "ReferencesResolved", "Programmed")
    return any(stand.condition(kind, space, name, stage).get("status") == "False" for stage in stages)


def _is_refused(stand, kind: str, space: str, name: str) -> bool:
    return stand.condition(kind, space, name, "Programmed").get("reason") == "Rejected"


LOST = {
    "no-skill": {"skills": [{"name": "absent"}]},
    "no-server": {"mcpServers": [{"name": "absent"}]},
    "no-key": {"model": {**GOOD_MODEL, "apiKeySecretRef": {"name": "absent"}}},
    "no-instructions": {"instructions": None, "instructionsFrom": {"configMapKeyRef": {"name": "absent", "key": "x"}}},
    "no-peer": {"peers": [{"name": "absent", "namespace": "nowhere"}]},
    "no-consent": {"peers": [{"name": "hermit", "namespace": ""}]},
}
"""What refers to something that is not there, or that does not allow it; the peer's namespace is filled in."""


async def test_o11_references_that_lead_nowhere_or_in_circles_come_to_rest(stand):
    """O11: three agents that name each other as peers, one peer that comes later, and all that nobody grants."""
    space, foreign = await stand.space(), await stand.space()
    operator = await stand.operator(space, foreign)
    ring = {"a": ["b", "late"], "b": ["c"], "c": ["a"]}
    for name, peers in ring.items():
        await stand.agent(space, name, peers=[{"name": peer} for peer in peers])
    await stand.agent(foreign, "hermit")
    for name, spec in LOST.items():
        peers = [{**peer, "namespace": peer["namespace"] or foreign} for peer in spec.get("peers", ())]
        whole = {**spec, **({"peers": peers} if peers else {})}
        await stand.client.apply(_without_nothing(flows.agent(name, space, **whole)))

    def all_told() -> bool:
        return all(_is_told(stand, "Agent", space, name) for name in LOST)

    await stand.until(space, all_told, "everything that leads nowhere is told of")
    assert "hermit" in stand.condition("Agent", space, "no-consent", "ReferencesResolved")["message"]
    await stand.programmed(space, "b", "c")
    assert "'late'" in stand.condition("Agent", space, "a", "ReferencesResolved")["message"]
    await stand.quiet(space)
    passes = await operator.passes()
    assert passes <= 20 * (len(ring) + len(LOST) + 1), "a bounded number of passes for each"
    await asyncio.sleep(5)
    # What waits for a person is looked at again every two seconds here.
    assert await operator.passes() - passes <= 3 * (len(LOST) + len(ring))
    await stand.agent(space, "late")
    await stand.programmed(space, "a", "late")


def _without_nothing(agent: dict) -> dict:
    return {**agent, "spec": {key: value for key, value in agent["spec"].items() if value is not None}}


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


async def test_o12_two_that_claim_one_name_are_told_apart(stand):
    """O12: `a` has a client `auth`, and `a-client` an auth Secret: both are called a-client-auth.

    A server `tools` and an agent `tools-mcp` want one Service. Nothing is cut: the longest names that differ in their
    last letter share no child.
    """
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space, "a", auth={"clients": [{"name": "auth"}]})
    await stand.client.apply(flows.server("tools", space))
    alike = [LONG[:-1] + last for last in "xy"]
    for name in alike:
        await stand.agent(space, name)
    await stand.programmed(space, "a", *alike)
    await stand.programmed(space, "tools", kind="McpServer")
    for name in ("a-client", "tools-mcp"):
        await stand.agent(space, name)

    def in_conflict() -> bool:
        owners = {"a-client": "'a'", "tools-mcp": "'tools'"}
        told = (stand.condition("Agent", space, name, "Conflict").get("message", "") for name in owners)
        return all(owner in message for owner, message in zip(owners.values(), told, strict=True))

    await stand.until(space, in_conflict, "the conflicts, with the owners' names")
    await stand.quiet(space)
    assert stand.condition("Agent", space, "a", "Programmed")["status"] == "True"
    assert stand.condition("McpServer", space, "tools", "Programmed")["status"] == "True"
    first, second = ({_key(child) for child in stand.children(space, name)} for name in alike)
    assert len(first) == len(second)
    assert not first & second
    assert await operator.passes() <= 20 * 5


def _key(child: dict) -> tuple[str, str]:
    return child["kind"], child["metadata"]["name"]
