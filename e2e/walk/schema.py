"""Every property of a CRD and values to try in it, from the schema itself, so that a new field needs no edit here.

A text that only certain words fit (a quantity, an address, a reference) gets a pool of all sorts of texts; the
API server says which of them it takes. Pure: asking it is somebody else's.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

Schema = Mapping[str, Any]
Path = tuple[str, ...]

_TEXTS = (
    "helper", "haiku", "tools", "key", "api-key", "absent", "fast",  # references that exist, but for one
    "Some words.", "0.5", "1.5", "2", "30s", "5m", "2Gi", "250m", "/elsewhere", "docker.io/example/other:2",
    "https://example.com/x", "http://192.0.2.7/v1", "http://tools-mcp:8000/mcp", "http://192.0.2.7:3128",
    f"sha256:{'0' * 64}", f"docker.io/example/other@sha256:{'1' * 64}", "1" * 40,
)  # fmt: skip
_BY_LABEL = {"matchLabels": {"walked": "here"}}
_POD_TEMPLATES = (
    {"metadata": {"labels": {"walked": "here"}}},
    {"spec": {"nodeSelector": {"walked": "here"}}},
    {"spec": {"hostNetwork": True}},
)
_KNOWN: Mapping[Path, tuple[Any, ...]] = {
    # Under a shorter life, or a longer one after it, a token turns in the time that the comparison takes.
    ("auth", "tokenTTL"): ("300h", "400h", "a week"),
    ("auth", "overlap"): ("30h", "40h", "soon"),
    # Within the volume that the walked agent has.
    ("memory", "maxBytes"): ("64Mi", "512Mi", "2Gi", "much"),
    ("a2a", "dialects"): (["1.0"], ["0.1", "1.0"], ["0.3"]),
    ("approvals", "tools"): (["ask_helper"], ["tools__add", "load_skill"], ["no_such_tool"]),
    ("plugins",): ([{"name": "units"}], [{"name": "units", "config": {"digits": 1}}], [{"name": "tools"}]),
    ("memory", "skills", "subAgents"): ([], ["scout"]),
    ("toolSearch", "always"): (["tools__add"], ["load_skill"], ["no_such_tool"]),
    ("subAgents",): (
        [{"name": "scout", "description": "Looks.", "instructions": "Look.", "tools": ["tools__add"]}],
        [
            {
                "name": "scout",
                "description": "Looks.",
                "instructions": "Look.",
                "model": {"name": "small"},
                "timeout": "90s",
            }
        ],
        [{"name": "scout", "description": "Looks.", "instructions": "Look.", "tools": ["task"]}],
    ),
    ("a2a", "push", "allowedCIDRs"): (["192.0.2.0/24"], ["10.20.0.0/16", "2001:db8::/32"], ["10.20.0.1/16"]),
    ("allowedCallers", "namespaces"): (
        {"from": "Selector", "selector": _BY_LABEL},
        {"from": "All"},
    ),
    ("podTemplate",): _POD_TEMPLATES,
    ("workload", "podTemplate"): _POD_TEMPLATES,
    ("source", "inline", "files"): (
        {"SKILL.md": "---\nname: haiku\ndescription: Other words.\n---\nOther lines.\n"},
        {"SKILL.md": "---\nname: haiku\ndescription: A file more.\n---\nLines.\n", "references/form.md": "5 7 5"},
        {"SKILL.md": "no header at all"},
    ),
}
"""Values that must be whole, or suit the walk."""


@dataclass(frozen=True)
class Edit:
    """One property and its new value; None takes it away."""

    path: Path
    value: Any
    within: tuple["Edit", ...] = ()
    """What makes the objects around it, where there are none yet."""

    def applied(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        whole = copy.deepcopy(dict(spec))
        for outer in self.within:
            if _at(whole, outer.path) is None:
                whole = outer.applied(whole)
        place: Any = whole
        *way, last = self.path
        for step in way:
            place = place.setdefault(step, {})
        if self.value is None:
            place.pop(last, None)
        else:
            place[last] = copy.deepcopy(self.value)
        return whole

    def __str__(self) -> str:
        return f"{'.'.join(self.path)} = {str(self.value)[:60]!r}" if self.value is not None else (
            f"{'.'.join(self.path)} unset"
        )  # fmt: skip


def _at(spec: Mapping[str, Any], path: Path) -> Any:
    place: Any = spec
    for step in path:
        place = place.get(step) if isinstance(place, Mapping) else None
    return place


def properties(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Every property below, the inner ones after the one that holds them."""
    for name, below in schema.get("properties", {}).items():
        yield (*path, name), below
        yield from properties(below, (*path, name))


def values(schema: Schema, path: Path = ()) -> list[Any]:
    """What might be tried in a property."""
    if path in _KNOWN:
        return list(_KNOWN[path])
    if "enum" in schema:
        return list(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return ["250m", "256Mi", 1]
    match schema.get("type"):
        case "boolean":
            return [True, False]
        case "integer" | "number":
            return _numbers(schema)
        case "array":
            return _lists(schema["items"])
        case "object":
            return _objects(schema)
        case _:
            return list(_TEXTS)


def _numbers(schema: Schema) -> list[Any]:
    low = schema.get("minimum", 0)
    high = schema.get("maximum", low + 100)
    return sorted({low, min(high, low + 7), high})


def _lists(items: Schema) -> list[Any]:
    inner = values(items)
    return [[], *([value] for value in inner), *([one, other] for one, other in pairwise(inner))]


def _objects(schema: Schema) -> list[Any]:
    """The smallest ones, with each of the values that their required parts might have."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return [{}, {"metadata": {"labels": {"walked": "here"}}}]
    if "additionalProperties" in schema:
        return [{}, {"walked": values(schema["additionalProperties"])[0]}]
    needed = {name: values(schema["properties"][name]) for name in schema.get("required", ())}
    if not needed:
        return [{}]
    longest = max(len(found) for found in needed.values())
    # All of one sort, which is what most pairs of texts have to be; and each beside the first of the others.
    return [{name: found[place % len(found)] for name, found in needed.items()} for place in range(longest)]
