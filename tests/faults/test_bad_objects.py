"""O11, O12: dangling references, and objects of unusual sizes and names."""

import asyncio
import time

import pytest
from e2e.control_plane.client import Refusal
from e2e.faults import flows

GOOD_MODEL = {"name": "m", "baseURL": "http://192.0.2.1/v1"}


LOST = {
    "no-skill": {"skills": [{"name": "absent"}]},
    "no-server": {"mcpServers": [{"name": "absent"}]},
    "no-key": {"model": {**GOOD_MODEL, "apiKeySecretRef": {"name": "absent"}}},
    "no-instructions": {"instructions": None, "instructionsFrom": {"configMapKeyRef": {"name": "absent", "key": "x"}}},
    "no-peer": {"peers": [{"name": "absent", "namespace": "nowhere"}]},
    "no-consent": {"peers": [{"name": "hermit", "namespace": ""}]},
}
"""Specs that refer to missing objects or to a peer that forbids it. The peer's namespace is filled in."""


async def test_o11_dangling_and_circular_references_settle(stand):
    """O11: three agents that name each other as peers, one peer that appears later, and references without consent."""
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
        return all(stand.is_told("Agent", space, name) for name in LOST)

    await stand.until(space, all_told, "everything that leads nowhere is told of")
    assert "hermit" in stand.condition("Agent", space, "no-consent", "ReferencesResolved")["message"]
    await stand.wait_until_programmed(space, "b", "c")
    assert "'late'" in stand.condition("Agent", space, "a", "ReferencesResolved")["message"]
    await stand.quiet(space)
    passes, began = await operator.passes(), time.monotonic()
    assert passes <= 20 * (len(ring) + len(LOST) + 1), "a bounded number of reconciles for each"
    await asyncio.sleep(5)
    more = await operator.passes() - passes
    # Conditions that need a person are checked every two seconds in these tests.
    assert more <= ((time.monotonic() - began) / 2 + 1) * (len(LOST) + len(ring))
    await stand.agent(space, "late")
    await stand.wait_until_programmed(space, "a", "late")


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
async def test_objects_of_maximum_size_are_programmed(stand, kind, name, spec, stage):
    space = await stand.space()
    operator = await stand.operator(space)
    before = operator.process.memory_mb()
    await stand.put(kind, space, name, spec)
    await stand.wait_until_programmed(space, name, kind=kind)
    assert operator.process.memory_mb() - before < 60
    assert await operator.passes(kind) <= 20


async def test_o12_five_hundred_tools_are_refused_by_name(stand):
    """O12: at the earliest stage, with the name of the field."""
    space = await stand.space()
    tools = [f"tool-{number}" for number in range(500)]
    with pytest.raises(Refusal, match=r"spec.mcpServers\[0\].tools.allow"):
        await stand.agent(space, mcpServers=[{"name": "tools", "tools": {"allow": tools}}])


async def test_o12_objects_with_colliding_child_names_are_separated(stand):
    """O12: objects whose derived names collide.

    `a` with a client `auth` and `a-client` with an auth Secret both need a-client-auth. A server `tools` and an agent
    `tools-mcp` need one Service. Names are not truncated: the longest names that differ in their last character share
    no child.
    """
    space = await stand.space()
    operator = await stand.operator(space)
    await stand.agent(space, "a", auth={"clients": [{"name": "auth"}]})
    await stand.client.apply(flows.server("tools", space))
    alike = [LONG[:-1] + last for last in "xy"]
    for name in alike:
        await stand.agent(space, name)
    await stand.wait_until_programmed(space, "a", *alike)
    await stand.wait_until_programmed(space, "tools", kind="McpServer")
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
