"""Compares the specs of two Agents, and finds what refers to the sub-agents of one. Pure."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fleetwright_api.spec.fleet import NO_REACH

_NOT_COMPARED: Final = frozenset({"instructions"})
_OFF: Final = ("suspend", "askHuman")
"""Fields for which false means the same as unset."""
_UNSET_FLEET_VALUES: Final = (None, False, NO_REACH)
"""Values in `spec.fleet` that mean the same as an unset field."""
_LONGEST: Final = 120
_RULES: Final = ("approvals", "enforcement", "toolSearch", "memory", "compaction")
_DELEGATING: Final = ("task", "task_batch")
_MISSING: Final = object()


def differences(fields: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return each field in which two specs differ, with both values, except the instructions.

    Empty fields and unset fields of the spec are equal. The order of MCP servers and of their tools has no meaning.
    """
    one, two = _comparable(fields), _comparable(other)
    return [
        f"{path} is {_shown(mine)} and would be {_shown(its)}"
        for key in sorted({*one, *two} - _NOT_COMPARED)
        for path, mine, its in _differing(f"spec.{key}", one.get(key, _MISSING), two.get(key, _MISSING))
    ]


def delegation_references(fields: Mapping[str, Any], moved: frozenset[str]) -> list[str]:
    """Return the fields that refer to the tools of sub-agents, or to sub-agents with these names."""
    found = [path for key in _RULES for path, value in _texts(fields.get(key), f"spec.{key}") if value in _DELEGATING]
    learned = ((fields.get("memory") or {}).get("skills") or {}).get("subAgents") or ()
    return list(dict.fromkeys([*found, *(["spec.memory.skills.subAgents"] if moved.intersection(learned) else [])]))


def _comparable(fields: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: value for key, value in fields.items() if value not in (None, {}, [])}
    if "fleet" in found:
        found["fleet"] = {key: value for key, value in found["fleet"].items() if value not in _UNSET_FLEET_VALUES}
    if "mcpServers" in found:
        found["mcpServers"] = sorted(map(_server, found["mcpServers"]), key=lambda use: str(use["name"]))
    return {key: value for key, value in found.items() if key not in _OFF or value}


def _server(use: Mapping[str, Any]) -> dict[str, Any]:
    lists = use.get("tools") or {}
    denied, asking = set(lists.get("deny") or ()), set(lists.get("requireApproval") or ())
    if lists.get("allow") is None:
        return {"name": use["name"], "deny": sorted(denied), "requireApproval": sorted(asking)}
    return {
        "name": use["name"],
        "allow": sorted({*lists["allow"], *asking} - denied),
        "requireApproval": sorted(asking - denied),
    }


def _differing(path: str, one: Any, two: Any) -> Iterator[tuple[str, Any, Any]]:
    if isinstance(one, Mapping) and isinstance(two, Mapping):
        for key in sorted({*one, *two}):
            yield from _differing(f"{path}.{key}", one.get(key, _MISSING), two.get(key, _MISSING))
    elif one is _MISSING or two is _MISSING or json.dumps(one, sort_keys=True) != json.dumps(two, sort_keys=True):
        yield path, one, two


def _shown(value: Any) -> str:
    text = "unset" if value is _MISSING else json.dumps(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        for key, below in value.items():
            if key == "schema":
                continue  # It describes arguments, and names no tools.
            yield from _texts(below, path if key == "tool" else f"{path}.{key}")
    elif isinstance(value, list):
        for below in value:
            yield from _texts(below, path)
    elif isinstance(value, str):
        yield path, value
