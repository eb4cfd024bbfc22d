"""The state folders in workspaces that `fleetwright dev` has made, so that it trusts no folder that a command has made.

A run hides its own state from commands. A run with another state folder would show it, and a command could change its
tokens and databases, or replace files by links. So the paths of such folders are kept outside of all workspaces: each
run hides all of them, and refuses a state folder in a workspace that is not among them.
"""

import contextlib
import json
from collections.abc import Collection
from pathlib import Path
from typing import Final

from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.private_files import write_private
from fleetwright_cli.dev.workspace.places import is_below

_FILE: Final = "states-in-workspaces.json"


def claim_state(state: Path, folders: Collection[Path], home: Path) -> tuple[Path, ...]:
    """Record the state folder of this run if it lies in a workspace. Return all state folders in workspaces.

    Args:
        state: The state folder, which may not exist yet.
        folders: The folders of workspaces.
        home: The folder that keeps the record.

    Raises:
        InvalidFleet: The folder lies in a workspace, has files, and was not made by a run of this user.
    """
    known = tuple(path for path in _read(home / _FILE) if path.is_dir())
    if not is_below(state, folders):
        return known
    if state not in known and state.is_dir() and any(state.iterdir()):
        raise InvalidFleet(
            f"--state: {state} lies in a workspace, and no run of yours has made it, so a command may have written its"
            " files; remove it, or move it out of the workspace if you know it"
        )
    states = tuple(dict.fromkeys((*known, state)))
    with contextlib.suppress(OSError):  # Then the next run refuses the folder.
        write_private(home / _FILE, json.dumps([str(path) for path in states]))
    return states


def _read(file: Path) -> list[Path]:
    try:
        listed = json.loads(file.read_text())
    except (OSError, ValueError):
        return []
    return [Path(each) for each in listed if isinstance(each, str)] if isinstance(listed, list) else []
