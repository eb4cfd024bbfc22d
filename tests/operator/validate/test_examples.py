"""The samples for new users: each is a valid spec, and together they show the important features.

One part of a spec must not contradict another.
"""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "examples"
PHOTOGRAPH = 2 * 1024 * 1024
"""The bytes of a photograph from a telephone. A request carries it as base64."""
OFFERED = 1024 * 1024
"""The default of `limits.maxRequestBytes`."""


def spelt_out() -> str:
    """Return the sample of the reference that has every field of an agent."""
    page = (ROOT / "docs/reference/agent.md").read_text()
    return page.partition("spelt out:\n\n```yaml\n")[2].partition("```")[0]


def agents() -> Iterator[Any]:
    for path in sorted(EXAMPLES.rglob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            if document and document.get("kind") == "Agent":
                name = f"{path.relative_to(EXAMPLES)}: {document['metadata']['name']}"
                yield pytest.param(document["spec"], id=name)


SEEING = [each for each in agents() if each.values[0].get("model", {}).get("vision")]


def test_samples_include_an_agent_with_vision() -> None:
    assert SEEING


@pytest.mark.parametrize("spec", SEEING)
def test_vision_sample_accepts_a_photograph(spec: dict[str, Any]) -> None:
    assert spec.get("limits", {}).get("maxRequestBytes", OFFERED) > PHOTOGRAPH * 4 / 3


@pytest.mark.parametrize("spec", [*agents(), pytest.param(yaml.safe_load(spelt_out())["spec"], id="the reference's")])
async def test_sample_spec_is_accepted(
    make_world: Any, with_gateway: Any, api: Any, objects: Any, spec: dict[str, Any]
) -> None:
    sample = objects.agent("sample")
    api.put({**sample, "spec": spec})
    world = make_world(api, with_gateway)
    try:
        await world.start()
        await world.settle()
        status, _, message = world.conditions("Agent", "sample")["Accepted"]
        assert status == "True", message
    finally:
        await world.stop()


def declared(schema: Mapping[str, Any], way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the fields of a schema, three levels deep."""
    for name, below in schema.get("properties", {}).items():
        yield (*way, name)
        if len(way) < 2:
            yield from declared(below.get("items", below), (*way, name))


def used(value: Any, way: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for one in value if isinstance(value, list) else [value]:
        for name, below in one.items() if isinstance(one, dict) else ():
            yield (*way, name)
            yield from used(below, (*way, name))


def test_reference_sample_lists_every_field_of_an_agent() -> None:
    """The sample has one of two exclusive fields in a comment. Fallbacks repeat the fields of the model."""
    crd = yaml.safe_load((ROOT / "crds/agent.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    text = spelt_out()
    there = set(used(yaml.safe_load(text)["spec"]))
    left = {way for way in declared(spec) if way not in there and way[:2] != ("model", "fallbacks")}
    comments = "\n".join(line for line in text.splitlines() if "#" in line)
    assert {".".join(way) for way in left if f"{way[-1]}: " not in comments} == set()


SHOWN = [
    "approvals.tools",
    "auth.administrators",
    "budgets.downgrade",
    "enforcement.limits",
    "limits.maxRepeatedCalls",
    "mcpServers.tools.requireApproval",
    "memory.knowledge.ingest",
    "memory.maxBytes",
    "memory.sessions",
    "memory.skills",
    "model.auxiliary",
    "model.fallbacks",
    "model.promptCache",
    "subAgents",
    "telemetry.otlp",
    "toolSearch",
]


@pytest.mark.parametrize("field", SHOWN)
def test_samples_include_every_shown_field(field: str) -> None:
    assert any(tuple(field.split(".")) in used(each.values[0]) for each in agents())
