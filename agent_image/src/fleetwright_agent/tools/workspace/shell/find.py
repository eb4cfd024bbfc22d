"""Decides whether a call of find only reads: it has only tests and prints, and follows no links. Pure."""

from collections.abc import Sequence
from typing import Final

from fleetwright_agent.tools.workspace.shell.options import ApprovalRequired

_ALONE: Final = frozenset(
    {
        *("-print", "-print0", "-ls", "-prune", "-quit", "-true", "-false", "-empty", "-readable", "-writable"),
        *("-executable", "-depth", "-xdev", "-mount", "-daystart", "-nouser", "-nogroup", "-noleaf"),
        *("-a", "-and", "-o", "-or", "-not", "!", "(", ")", ","),
    }
)
_ONE: Final = frozenset(
    {
        *("-name", "-iname", "-path", "-ipath", "-wholename", "-iwholename", "-regex", "-iregex", "-regextype"),
        *("-type", "-size", "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin", "-maxdepth", "-mindepth"),
        *("-perm", "-user", "-group", "-uid", "-gid", "-links", "-inum", "-lname", "-ilname", "-printf", "-newermt"),
    }
)
_PATH: Final = frozenset({"-newer", "-anewer", "-cnewer", "-samefile"})


def find_paths(arguments: Sequence[str]) -> list[str]:
    """Return the paths that find reads. Raises: ApprovalRequired."""
    rest = list(arguments)
    while rest[:1] == ["-P"]:
        del rest[0]
    paths: list[str] = []
    while rest and not rest[0].startswith("-") and rest[0] not in ("!", "(", ")", ","):
        paths.append(rest.pop(0))
    while rest:
        test = rest.pop(0)
        if test in _ALONE:
            continue
        if test not in _ONE and test not in _PATH:
            raise ApprovalRequired(f"its test {test} is not one that only reads")
        if not rest:
            raise ApprovalRequired(f"its test {test} has no value")
        value = rest.pop(0)
        if test in _PATH:
            paths.append(value)
    return paths
