"""The command line of an McpServer that runs on one machine."""

import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from fleetwright_api.spec.mcp_server import WorkloadSpec
from fleetwright_cli.dev.layout import HOST
from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.workspace.places import is_below


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


def require_trusted_command(name: str, command: Sequence[str], folders: Collection[Path], current: Path) -> None:
    """Refuse a command that names a file of a workspace. It runs outside of the sandbox.

    Args: `folders` are those of workspaces, and `current` is the current folder, to which paths are relative.

    Raises:
        InvalidFleet: A word is the path of such a file.
    """
    for word in command:
        for path in (word, word.partition("=")[2]):
            is_path = os.sep in path or bool(Path(path).suffix)
            place = (current / path).resolve() if is_path else current
            if is_path and is_below(place, folders) and place.exists():
                raise InvalidFleet(
                    f"McpServer {name}: spec.workload.command: {path!r} lies in a workspace, whose commands can change"
                    " it, and a server runs outside of the sandbox; copy it to another folder"
                )


def _bridge(workload: WorkloadSpec) -> list[str]:
    """Return the bridge command that precedes the command of a stdio server, as in a pod."""
    if workload.transport != "Stdio":
        return []
    bridge = [sys.executable, "-P", "-m", "fleetwright_agent", "bridge", "--host", HOST, "--port", "$(PORT)"]
    return [*bridge, "--path", workload.path, "--"]
