"""Above the API library, no code reads a spec as a mapping. The views of `fleetwright_api.spec` are the only access."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "operator/src", ROOT / "cli/src")
OTHER_OBJECTS = {"body", "patch", "self.serving[-1]", "template", "wanted", "whole", "yaml.safe_load(text)"}
"""Expressions for pods, manifests and CRDs, which also have a field `spec`."""


def mapping_reads(source: str) -> Iterator[str]:
    """Yield every expression that reads a spec, or an object's spec, by a key."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Subscript(value=holder, slice=key):
                pass
            case ast.Call(func=ast.Attribute(value=holder, attr="get"), args=[key, *_]):
                pass
            case _:
                continue
        if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
            continue
        name = holder.id if isinstance(holder, ast.Name) else holder.attr if isinstance(holder, ast.Attribute) else ""
        if name == "spec" or (key.value == "spec" and ast.unparse(holder) not in OTHER_OBJECTS):
            yield ast.unparse(node)


def test_spec_is_read_by_key_only_inside_the_api_library():
    found = [
        f"{path.relative_to(ROOT)}: {read}"
        for source in SOURCES
        for path in sorted(source.rglob("*.py"))
        for read in mapping_reads(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        pytest.param("spec['model']", True, id="subscript"),
        pytest.param("agent.spec.get('model', {})", True, id="get on an attribute"),
        pytest.param("agent['spec']", True, id="spec of an object"),
        pytest.param("entry.projection.get('spec')", True, id="spec of a projection"),
        pytest.param("agent.spec.model.name", False, id="view"),
        pytest.param("template['spec']['containers']", False, id="pod template"),
        pytest.param("status.get('spec')", True, id="unknown object"),
    ],
)
def test_mapping_reads_finds_reads_by_key(source, found):
    assert bool(list(mapping_reads(source))) is found
