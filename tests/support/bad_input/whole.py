"""The smallest valid object of each kind, and edits that change one field of it."""

import copy
from typing import Any, Final

Object = dict[str, Any]

AGENT: Final[Object] = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Agent",
    "metadata": {"name": "a"},
    "spec": {"instructions": "Help.", "model": {"name": "m"}},
}
SKILL: Final[Object] = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "Skill",
    "metadata": {"name": "a"},
    "spec": {"source": {"inline": {"files": {"SKILL.md": "---"}}}},
}
SERVER: Final[Object] = {
    "apiVersion": "fleetwright.dev/v1alpha1",
    "kind": "McpServer",
    "metadata": {"name": "a"},
    "spec": {"remote": {"url": "https://example.com/mcp"}},
}


def changed(base: Object, path: str, value: object) -> Object:
    body = copy.deepcopy(base)
    *way, last = path.split(".")
    place = body
    for step in way:
        place = place.setdefault(step, {})
    if value is None:
        place.pop(last)
    else:
        place[last] = value
    return body
