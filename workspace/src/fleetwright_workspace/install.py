"""Writes the executor as a zipapp: `python -m fleetwright_workspace.install FOLDER` writes FOLDER/executor.pyz.

Equal sources give equal bytes. The file needs Python 3.9 or newer, and no package.
"""

from __future__ import annotations

import os
import sys
import zipfile

NAME = "executor.pyz"
_MODULES = ("__init__.py", "options.py", "executor")
_START = b"from fleetwright_workspace.executor.__main__ import main\n\nmain()\n"
_TIME = (1980, 1, 1, 0, 0, 0)


def install(folder: str) -> str:
    """Write the zipapp into the folder, and return its path."""
    package = os.path.dirname(os.path.abspath(__file__))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, NAME)
    fresh = f"{path}.new"
    with open(fresh, "wb") as file:
        file.write(b"#!/usr/bin/env python3\n")
        with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
            _add(archive, "__main__.py", _START)
            for name in _files(package):
                with open(os.path.join(package, name), "rb") as module:
                    _add(archive, f"fleetwright_workspace/{name}", module.read())
    os.chmod(fresh, 0o755)  # noqa: S103 - the user of another container runs it
    os.replace(fresh, path)
    return path


def _files(package: str) -> list[str]:
    found: list[str] = []
    for name in _MODULES:
        path = os.path.join(package, name)
        if os.path.isdir(path):
            found += [f"{name}/{entry}" for entry in sorted(os.listdir(path)) if entry.endswith(".py")]
        else:
            found.append(name)
    return found


def _add(archive: zipfile.ZipFile, name: str, content: bytes) -> None:
    entry = zipfile.ZipInfo(name, _TIME)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = 0o644 << 16
    archive.writestr(entry, content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python -m fleetwright_workspace.install FOLDER")
    install(sys.argv[1])
