"""Resolves paths of a workspace, so that two names of one file are one file for grants and for reads."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from fleetwright_agent.tools.port import ToolError
from fleetwright_agent.tools.workspace.response_fields import items_of, text_of
from fleetwright_agent.tools.workspace.runner import WorkspaceRunner

_AT_ONCE: Final = 100


@dataclass(frozen=True, slots=True)
class RealPath:
    real: str
    inside: bool
    """True if the real path is inside the workspace."""


async def real_paths(runner: WorkspaceRunner, paths: Sequence[str]) -> list[RealPath]:
    """Return the real paths, in the given order. Raises: ToolError."""
    found: list[RealPath] = []
    for start in range(0, len(paths), _AT_ONCE):
        answer = await runner.call("paths", {"paths": list(paths[start : start + _AT_ONCE]), "cwd": "."})
        found += [RealPath(text_of(item, "real"), item.get("inside") is True) for item in items_of(answer, "paths")]
    if len(found) != len(paths):
        raise ToolError("the workspace gave an answer that cannot be read; go on without it")
    return found


async def real_path(runner: WorkspaceRunner, path: str) -> str:
    """Return the real path of a file that exists or can be created. Raises: ToolError."""
    [found] = await real_paths(runner, [path])
    if not found.inside or not found.real:
        raise ToolError(f"{path} is outside the workspace; use a path inside it")
    return found.real
