"""The release notes list, field by field, which changes an upgrade from the last release makes to children.

`released.yaml` holds the children of a fleet as the last release made them. Each release rewrites it with
FLEETWRIGHT_WRITE_RELEASED=1, and empties the section of the changelog.
"""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.control_plane.changes import announced, changes
from e2e.control_plane.normalised_state import Reader

ROOT = Path(__file__).parents[2]
RELEASED = Path(__file__).with_name("released.yaml")
LABELS = '"labels": owner.labels}'
"""The place in the code where every child gets its labels."""


def _announced() -> set[str]:
    return announced((ROOT / "CHANGELOG.md").read_text())


def _children(stand, space: str) -> dict[str, Any]:
    parts = Reader(generations=()).parts(stand.in_use(space), namespace=space)
    return {name: {key: value for key, value in part.items() if key != "status"} for name, part in parts.items()}


async def _made_by(stand, **environment: str) -> dict[str, Any]:
    """Return the children that an operator creates for the fleet in a namespace of its own."""
    space = await stand.space()
    await stand.operator(space, **environment)
    await stand.fleet(space)
    await stand.until(space, lambda: stand.fleet_is_ready(space), "the fleet is ready")
    await stand.quiet(space)
    return _children(stand, space)


async def test_o16_changelog_lists_every_child_change_of_an_upgrade(stand):
    """O16: compare with the children of the last release."""
    made = await _made_by(stand)
    if os.environ.get("FLEETWRIGHT_WRITE_RELEASED"):
        RELEASED.write_text(yaml.safe_dump(made, sort_keys=True, width=120))
    found, told = changes(yaml.safe_load(RELEASED.read_text()), made), _announced()
    assert sorted(found - told) == [], "add these to the changelog's list of changes that an upgrade makes to children"
    assert not told - found, "the changelog lists these as changed, but they are not"


async def test_o16_unannounced_child_change_is_detected(stand, tmp_path):
    """O16: add a label for every child to the operator's source."""
    sources = shutil.copytree(ROOT / "operator" / "src", tmp_path / "planted")
    file = sources / "fleetwright_operator" / "build" / "manifest.py"
    assert file.read_text().count(LABELS) == 1
    file.write_text(file.read_text().replace(LABELS, '"labels": {**owner.labels, "planted": "yes"}}'))
    made = await _made_by(stand, PYTHONPATH=str(sources))
    released = yaml.safe_load(RELEASED.read_text())
    found = {change for change in changes(released, made) - _announced() if "planted" in change}
    assert all(change.endswith(" metadata.labels.planted") for change in found)
    assert {change.partition(" ")[0] for change in found} == {child.partition("/")[0] for child in released}


def _leaves(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ways = [found for name, below in inner for found in _leaves(below, *way, name)]
    yield from ways or [way]


def _put(value: Any, way: tuple[Any, ...], new: Any) -> Any:
    if not way:
        return new
    if isinstance(value, dict):
        return {key: _put(below, way[1:], new) if key == way[0] else below for key, below in value.items()}
    return [_put(below, way[1:], new) if place == way[0] else below for place, below in enumerate(value)]


@pytest.mark.parametrize("child", sorted(yaml.safe_load(RELEASED.read_text())))
def test_o16_changes_names_any_changed_field_of_any_child(child):
    """O16: change and remove each field of each released child."""
    released = yaml.safe_load(RELEASED.read_text())
    kind = child.partition("/")[0]
    for way in _leaves(released[child]):
        found = changes(released, {**released, child: _put(released[child], way, "planted")})
        fields = [change.split(" ", 2) for change in found]
        assert fields, way
        assert all(where[0] == kind and where[2].startswith(".".join(way[:2])) for where in fields), (way, found)
    assert changes(released, {name: body for name, body in released.items() if name != child})
