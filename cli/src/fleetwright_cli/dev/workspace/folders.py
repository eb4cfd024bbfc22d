"""The folders that a user chooses for workspaces, `AGENT=FOLDER`, from which this program imports nothing."""

import os
import sys
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path


def parse_folders(words: Iterable[str]) -> dict[str, Path]:
    """Return the folders by agent.

    Raises:
        ValueError: A word has another form, a folder does not exist, or an agent is named twice.
    """
    found: dict[str, Path] = {}
    for word in words:
        name, equals, folder = word.partition("=")
        if not (name and equals and folder):
            raise ValueError(f"{word!r} is not AGENT=FOLDER")
        if name in found:
            raise ValueError(f"{name!r} is named twice")
        path = Path(folder).expanduser()
        if not path.is_dir():
            raise ValueError(f"{folder!r} is not a folder; create it first")
        found[name] = path.resolve()
    return found


def remove_import_folders(folders: Collection[Path], environ: Mapping[str, str], current: Path) -> None:
    """Remove what the variable PYTHONPATH and the current folder add to the search path of modules in a workspace.

    The environment in which this program is installed stays: it is read-only in the sandbox.
    """
    added = {(current / entry).resolve() for entry in ("", *environ.get("PYTHONPATH", "").split(os.pathsep))}
    untrusted = {entry for entry in added if any(entry.is_relative_to(folder) for folder in folders)}
    sys.path[:] = [entry for entry in sys.path if (current / entry).resolve() not in untrusted]
