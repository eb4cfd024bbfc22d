"""The place of a run on this machine, and what its programs inherit, where commands of workspaces can write files.

A command of a workspace writes what it wants into its folder. So no program outside the sandbox may find itself, a
module or a setting there without being asked. This module resolves names, searches programs and passes variables on
with this in mind.
"""

import os
import shutil
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Final

from fleetwright_cli.dev.manifests import InvalidFleet

_MOST_LINKS: Final = 40
"""Linux follows at most this many links in one path."""
_LISTS: Final = ("PATH", "LIB")
"""Ends of the names of variables with a list of folders, in which a relative folder or an empty word counts."""


def is_below(path: Path, folders: Iterable[Path]) -> bool:
    """Return whether a path is one of the folders or lies below one."""
    return any(path.is_relative_to(folder) for folder in folders)


def resolve_place(path: Path, folders: Collection[Path], option: str) -> Path:
    """Return the real path of what an option names.

    Raises:
        InvalidFleet: The path leads through a symbolic link in a workspace, which a command could replace.
    """
    place, pending, links = Path("/"), list(reversed(path.absolute().parts[1:])), 0
    while pending:
        part = pending.pop()
        if part == "..":
            place = place.parent
            continue
        entry = place / part
        if not entry.is_symlink():
            place = entry
            continue
        links += 1
        if is_below(place, folders) or links > _MOST_LINKS:
            raise InvalidFleet(
                f"{option}: {entry} is a symbolic link in a workspace, whose commands can replace it; name the real"
                f" path, {path.resolve()}"
            )
        target = entry.readlink()
        place = Path("/") if target.is_absolute() else place
        pending += reversed(target.parts[1:] if target.is_absolute() else target.parts)
    return place


def require_outside_home(folders: Mapping[str, Path], environ: Mapping[str, str]) -> None:
    """Refuse a workspace with the user's home folder. Most programs read settings there, so none could be trusted.

    Args: `folders` has the folders of workspaces, by agent.

    Raises:
        InvalidFleet: A workspace contains the home folder.
    """
    home = Path(environ.get("HOME") or Path.home()).resolve()
    for agent, folder in folders.items():
        if home.is_relative_to(folder):
            raise InvalidFleet(
                f"--workspace {agent}: {folder} contains your home folder, whose settings most programs read; use a"
                " folder below it"
            )


def trusted_environment(environ: Mapping[str, str], folders: Collection[Path], current: Path) -> dict[str, str]:
    """Return the variables without the parts that name a path in a workspace.

    Args:
        environ: The variables of this process.
        folders: The folders of workspaces.
        current: The current folder, in which relative parts of a search path lie.
    """
    found: dict[str, str] = {}
    for name, value in environ.items():
        parts = value.split(os.pathsep)
        is_list = name.endswith(_LISTS)
        kept = [part for part in parts if not names_workspace(part, folders, current if is_list else None)]
        if kept or not value:
            found[name] = os.pathsep.join(kept)
    return found


def find_program(name: str, environ: Mapping[str, str], folders: Collection[Path], current: Path) -> str | None:
    """Return the absolute path of a program outside of all workspaces; None if there is none on the search path."""
    path = trusted_environment({"PATH": environ.get("PATH", os.defpath)}, folders, current).get("PATH", "")
    found = shutil.which(name, path=path) if path else None
    if found is None or is_below(Path(found).resolve(), folders):
        return None
    return str(Path(found).absolute())


def names_workspace(part: str, folders: Collection[Path], current: Path | None) -> bool:
    """Return whether a text names a folder of a workspace or a path below one.

    Args: `current` is the folder to which the text is relative if the text is a path, and None if it may contain paths.
    """
    if current is not None:
        place = Path(os.path.normpath(current / part))
        return is_below(place, folders) or is_below(place.resolve(), folders)
    return any(part == str(folder) or f"{folder}/" in part for folder in folders)
