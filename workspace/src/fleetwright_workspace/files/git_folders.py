"""Recognises the folders in which git keeps a repository, wherever they are and whatever their names.

Git runs programs that the configuration and the hooks of a repository name, so file tools must not write there.
"""

from __future__ import annotations

import os

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.root import Location, WorkspaceRoot


def refuse_git(root: WorkspaceRoot, location: Location) -> None:
    """Refuse a write to a file of a repository, or one that would make a folder a repository.

    Raises:
        CallError: The file belongs to git.
    """
    if location.is_git or any(_is_repository(root, location, depth) for depth in range(len(location.parts))):
        raise CallError("outside", f"{location.path} is a file of a git repository; use a git command")


def _is_repository(root: WorkspaceRoot, location: Location, depth: int) -> bool:
    """Return whether a folder above the file is a repository, once the file is written.

    Git accepts a folder with `HEAD`, `objects` and `refs`. The repository of a further working tree, to which a file
    `.git` points, has `HEAD` and `commondir` instead. Git accepts links too, and a `HEAD` that leads nowhere, so every
    entry with these names counts.
    """
    written = location.parts[depth]
    try:
        with root.folder(Location(location.parts[:depth], ())) as folder:
            if not (written == "HEAD" or _exists(folder, "HEAD")):
                return False
            if written == "commondir" or _exists(folder, "commondir"):
                return True
            return all(written == name or _exists(folder, name) for name in ("objects", "refs"))
    except CallError:
        return False  # The folder does not exist yet.


def _exists(folder: int, name: str) -> bool:
    try:
        os.lstat(name, dir_fd=folder)
    except OSError:
        return False
    return True
