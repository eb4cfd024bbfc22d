"""Every property of a CRD and values to try in it, from the schema itself, so that a new field needs no edit here.

A text of which only some values are valid (a quantity, an address, a reference) gets a pool of various texts. The API
server decides which of them it accepts. This module is pure and does not call the API server.
"""

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from e2e.walk.edits import ITEM, Path

Schema = Mapping[str, Any]

_TEXTS = (
    "helper", "haiku", "tools", "key", "api-key", "absent", "fast",  # all references exist except one
    "Some words.", "0.5", "1.5", "2", "30s", "5m", "2Gi", "250m", "/elsewhere", "docker.io/example/other:2",
    "https://example.com/x", "http://192.0.2.7/v1", "http://tools-mcp:8000/mcp", "http://192.0.2.7:3128",
    f"sha256:{'0' * 64}", f"docker.io/example/other@sha256:{'1' * 64}", "1" * 40,
)  # fmt: skip
_BY_LABEL = {"matchLabels": {"walked": "here"}}
_SCOUT = {"name": "scout", "description": "Looks.", "instructions": "Look.", "tools": ["tools__add"]}
_NEIGHBOURS = ({"namespaceSelector": _BY_LABEL}, {"ipBlock": {"cidr": "192.0.2.0/24"}}, {"podSelector": _BY_LABEL})
_POD_TEMPLATES = (
    {"metadata": {"labels": {"walked": "here"}}},
    {"spec": {"nodeSelector": {"walked": "here"}}},
    {"spec": {"hostNetwork": True}},
)
_KNOWN: Mapping[Path, tuple[Any, ...]] = {
    # With a shorter lifetime, the operator would rotate a token during the comparison.
    ("auth", "tokenTTL"): ("300h", "400h", "a week"),
    ("auth", "overlap"): ("30h", "40h", "soon"),
    # Sizes that fit the volume of the agent under test.
    ("memory", "maxBytes"): ("64Mi", "512Mi", "2Gi", "much"),
    ("idlePrompt", "every"): ("5m", "2h", "30s"),
    ("fleet", "idleTimeout"): ("45s", "1h", "5s"),
    ("a2a", "dialects"): (["1.0"], ["0.1", "1.0"], ["0.3"]),
    ("approvals", "tools"): (["ask_helper"], ["tools__add", "load_skill"], ["no_such_tool"]),
    ("plugins",): ([{"name": "units"}], [{"name": "units", "config": {"digits": 1}}], [{"name": "tools"}]),
    ("executor",): ({"name": "dice:Dice"}, {"name": "games.dice:Dice", "inputModes": ["text/plain"]}, {"name": "dice"}),
    ("executor", "name"): ("dice:Dice", "games.dice:Dice", "dice"),
    ("executor", "inputModes"): (["image/png"], ["application/json", "text/plain"], ["png"]),
    ("memory", "knowledge"): ({"enabled": True}, {"enabled": True, "ingest": ["tools__add"]}, {}),
    ("memory", "knowledge", "ingest"): (["tools__add"], ["tools__add", "ask_helper"], ["no_such_tool"]),
    ("memory", "skills", "subAgents"): ([], ["scout"]),
    ("limits", "highPriorityCallers"): (["agent:team/lead"], ["client:ci", "user:ada"], ["lead"]),
    ("approvals", "bypassCallers"): (["client:ci"], ["client:ci", "user:Ada Lovelace"], ["agent:team/lead"]),
    ("callerRoles",): (
        [{"callers": ["client:ci", "user:*"], "role": "ReadOnly"}, {"callers": ["*"], "actions": ["ReadMemory"]}],
        [],
        [{"callers": ["agent:team/*"], "role": "Unrestricted", "actions": []}],
    ),
    ("callerRoles", ITEM, "callers"): (["*"], ["agent:team/lead"], ["user:*a"]),
    ("toolSearch", "always"): (["tools__add"], ["load_skill"], ["no_such_tool"]),
    ("subAgents",): (
        [_SCOUT],
        [{**_SCOUT, "model": {"name": "small"}, "timeout": "90s"}],
        [{**_SCOUT, "tools": ["task"]}],
    ),
    ("a2a", "skills", ITEM, "outputMediaType"): ("application/json", "text/csv"),
    ("subAgents", ITEM, "tools"): (["tools__add"], [], ["task"]),
    ("model", "extraBody"): ({"top_k": 40}, {"top_p": 0.9, "guided": {"on": True}}, {"messages": []}),
    ("model", "fallbacks"): (
        [{"name": "second", "baseURL": "http://192.0.2.9/v1"}],
        [],
        [{"name": "second"}, {"name": "third", "baseURL": "https://models.example.com/v1"}],
    ),
    ("budgets",): (
        [{"period": "Day", "usd": "2", "tokens": 1000}],
        [],
        [{"period": "Hour", "tokens": 1000}, {"period": "Month", "usd": "20.50", "onExceeded": "Pause"}],
    ),
    ("network", "ingress", ITEM, "from"): _NEIGHBOURS,
    ("network", "egress", ITEM, "to"): _NEIGHBOURS,
    ("workspace", "network", "egress", ITEM, "to"): (*_NEIGHBOURS, {"host": "registry.example.com"}),
    ("workspace", "network", "egress", ITEM, "to", "host"): ("registry.example.com", "mirror.example.com", "10.0.0.1"),
    ("permissions", "egress"): (
        [{"host": "example.com", "ports": [443]}],
        [],
        [{"ipBlock": {"cidr": "192.0.2.0/24"}, "ports": [8443], "why": "reports"}],
    ),
    ("workload", "envFrom"): (
        [{"secretRef": {"name": "key"}}],
        [{"configMapRef": {"name": "haiku-files"}, "prefix": "HAIKU_"}],
        [{"secretRef": {"name": "absent"}}],
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
"""Values that must be complete, or that are suitable for the walk."""
_SECRETS = ("secretKeyRef", "apiKeySecretRef", "caSecretRef")
_KNOWN_ENDS: Mapping[Path, tuple[Any, ...]] = {
    **{(kind,): ({"name": "key", "key": "api-key"}, {"name": "spare", "key": "api-key"}) for kind in _SECRETS},
    **{(kind, "name"): ("spare", "absent", "key") for kind in _SECRETS},
    **{(kind, "key"): ("absent", "api-key") for kind in _SECRETS},
    ("cidr",): ("198.51.100.0/24", "10.20.0.1/16", "0.0.0.0/0"),
    ("except",): (["192.0.2.0/25"], ["198.51.100.0/25"], []),
}
"""Values for every path with this ending."""


def properties(schema: Schema, path: Path = ()) -> Iterator[tuple[Path, Schema]]:
    """Yield every property below, including those of list items.

    A property comes before the properties that it contains.
    """
    for name, below in schema.get("properties", {}).items():
        yield (*path, name), below
        yield from properties(below, (*path, name))
    if "items" in schema:
        yield from properties(schema["items"], (*path, ITEM))


def values(schema: Schema, path: Path = ()) -> list[Any]:
    """Return the values to try in a property."""
    if known := _known(path):
        return list(known)
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
            return _lists(schema["items"], path)
        case "object":
            return _objects(schema, path)
        case _:
            return list(_TEXTS)


def _known(path: Path) -> tuple[Any, ...]:
    if path in _KNOWN:
        return _KNOWN[path]
    return next((found for ends, found in _KNOWN_ENDS.items() if path[-len(ends) :] == ends), ())


def _numbers(schema: Schema) -> list[Any]:
    low = schema.get("minimum", 0)
    high = schema.get("maximum", low + 100)
    return sorted({low, min(high, low + 7), high})


def _lists(items: Schema, path: Path) -> list[Any]:
    inner = values(items, (*path, ITEM))
    return [[], *([value] for value in inner), *([one, other] for one, other in pairwise(inner))]


def _objects(schema: Schema, path: Path) -> list[Any]:
    """Return the smallest objects, with each of the values that their required properties may have."""
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return [{}, {"metadata": {"labels": {"walked": "here"}}}]
    if "additionalProperties" in schema:
        return [{}, {"walked": values(schema["additionalProperties"])[0]}]
    needed = {name: values(schema["properties"][name], (*path, name)) for name in schema.get("required", ())}
    if not needed:
        return [{}]
    longest = max(len(found) for found in needed.values())
    # Combine values of the same position, because most pairs of texts must be of the same sort.
    return [{name: found[place % len(found)] for name, found in needed.items()} for place in range(longest)]
