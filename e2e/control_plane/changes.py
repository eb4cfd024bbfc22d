"""The fields of children that differ between two moments, and the fields that the changelog announces. Pure.

The name of a change has the child, with a placeholder for the name of its custom object, and the path of the topmost
field that was added, removed or changed. Elements of a list are identified by their `name` if all of them have one. An
added container therefore does not move the others.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from fleetwright_api import names

Children = Mapping[str, Any]
"""Children by kind and name, such as `Deployment/poet`."""
_HEADING = "### Children that this upgrade changes"
_ENTRY = re.compile(r"- `(?P<child>\w+ [^` ]+)`(?P<paths>(?:,?\s+`[^`]+`)*):\s+\S")
_ABSENT = object()


def changes(before: Children, after: Children) -> set[str]:
    """Return changes such as `Deployment <agent> spec.replicas`, or `Secret <agent>-auth` for an added or removed
    child.
    """
    return {
        f"{_whose(child, after.get(child) or before[child])} {path.removeprefix('.')}".rstrip()
        for child in before.keys() | after.keys()
        for path in _paths(before.get(child, _ABSENT), after.get(child, _ABSENT))
    }


def announced(changelog: str) -> set[str]:
    """Return the changes of children that the section on the next release lists, in the notation of `changes`.

    Raises ValueError for an entry that names no kind and field, or does not describe them.
    """
    unreleased = changelog.partition("## [Unreleased]")[2].partition("\n## [")[0]
    section = unreleased.partition(_HEADING)[2].partition("\n### ")[0]
    told: set[str] = set()
    for entry in re.split(r"^(?=- )", section, flags=re.MULTILINE)[1:]:
        if not (read := _ENTRY.match(entry)):
            raise ValueError(f"below {_HEADING!r} an entry is as `- `Kind <agent>` `a.field`: why`, not {entry}")
        paths = re.findall(r"`([^`]+)`", read["paths"])
        told |= {f"{read['child']} {path}" for path in paths} if paths else {read["child"]}
    return told


def _whose(child: str, body: Mapping[str, Any]) -> str:
    kind, _, name = child.partition("/")
    for label, owner in body.get("metadata", {}).get("labels", {}).items():
        if label.startswith(names.GROUP) and name.startswith(owner):
            return f"{kind} <{label.rpartition('/')[2]}>{name.removeprefix(owner)}"
    return f"{kind} {name}"


def _paths(before: Any, after: Any, path: str = "") -> Iterator[str]:
    left, right = _fields(_opened(before)), _fields(_opened(after))
    inner: set[str] = set()
    if left is not None and right is not None and not _is_row_of_another_length(left, right):
        for name in left.keys() | right.keys():
            inner |= set(_paths(left.get(name, _ABSENT), right.get(name, _ABSENT), path + name))
    # A list in another order, or JSON in another format, is a change although no field differs.
    if not inner and (type(before), before) != (type(after), after):
        inner = {path}
    yield from inner


def _fields(value: Any) -> dict[str, Any] | None:
    if isinstance(value, Mapping):
        return {f".{key}": below for key, below in value.items()}
    if isinstance(value, list):
        called = [below.get("name") if isinstance(below, Mapping) else None for below in value]
        named = None not in called and len(set(called)) == len(called)
        return {f"[{called[place] if named else place}]": below for place, below in enumerate(value)}
    return None


def _is_row_of_another_length(left: Mapping[str, Any], right: Mapping[str, Any]) -> bool:
    """Return True for lists of unnamed elements that differ in length."""
    return ("[0]" in left or "[0]" in right) and len(left) != len(right)


def _opened(value: Any) -> Any:
    """Parse JSON in a string, as in the data of a ConfigMap, because its fields are compared too."""
    if not isinstance(value, str) or not value.startswith(("{", "[")):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value
