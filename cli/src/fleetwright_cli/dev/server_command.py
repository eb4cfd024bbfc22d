"""The command line of an McpServer that runs on one machine."""

import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Final

from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_cli.dev.layout import HOST
from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.workspace.places import is_below, names_workspace

_IN_WORKSPACE: Final = (
    "names a file of a workspace, whose commands can change it, and a server runs outside of the sandbox;"
    " copy it to another folder"
)


def server_command(name: str, workload: WorkloadSpec, port: int) -> list[str]:
    """Return the workload's command line with expanded variables. `fleetwright` runs in this Python environment.

    Raises:
        InvalidFleet: The workload has no command.
    """
    if not workload.command:
        raise InvalidFleet(
            f"McpServer {name}: spec.workload.command: a local run needs a command, because it runs no images"
        )
    words = [*_bridge(workload), *workload.command, *workload.args]
    expanded = [word.replace("$(PORT)", str(port)).replace("$(HOST)", HOST) for word in words]
    if expanded[:1] == ["fleetwright"]:
        return [sys.executable, "-P", "-m", "fleetwright_cli", *expanded[1:]]
    return expanded


def require_trusted_command(name: str, workload: WorkloadSpec, folders: Collection[Path], current: Path) -> None:
    """Refuse a command or a variable that names a file of a workspace. The command runs outside of the sandbox.

    Args: `folders` are those of workspaces, and `current` is the current folder, to which paths are relative.

    Raises:
        InvalidFleet: A word or a variable names such a file.
    """
    for word in (*workload.command, *workload.args):
        if _names_file(word, folders, current) or _names_file(word.partition("=")[2], folders, current):
            raise InvalidFleet(f"McpServer {name}: spec.workload.command: {word!r} {_IN_WORKSPACE}")
    for variable in workload.env:
        if any(names_workspace(part, folders, None) for part in variable.value.split(os.pathsep)):
            raise InvalidFleet(f"McpServer {name}: spec.workload.env: {variable.name} {_IN_WORKSPACE}")


def _names_file(word: str, folders: Collection[Path], current: Path) -> bool:
    if names_workspace(word, folders, None):
        return True
    # A server does not start in a workspace, so a bare word is no path in one.
    is_path = bool(word) and (os.sep in word or bool(Path(word).suffix) or not is_below(current, folders))
    place = (current / word).resolve()
    return is_path and is_below(place, folders) and place.exists()


def _bridge(workload: WorkloadSpec) -> list[str]:
    """Return the bridge command that precedes the command of a stdio server, as in a pod."""
    if workload.transport != "Stdio":
        return []
    bridge = [sys.executable, "-P", "-m", "fleetwright_agent", "bridge", "--host", HOST, "--port", "$(PORT)"]
    return [*bridge, "--path", workload.path, "--"]
