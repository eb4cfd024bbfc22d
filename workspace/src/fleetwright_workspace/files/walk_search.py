"""Searches the current folder with Python's regular expressions, for images without ripgrep. It runs as a process.

If PATH is `-`, it searches the standard input. It never follows a symbolic link.

    python -m fleetwright_workspace.files.walk_search PATTERN INCLUDE MOST_PER_FILE PATH

Its output has the form of ripgrep's: `path NUL number : text`. It skips folders of dependencies and large files.
"""

from __future__ import annotations

import fnmatch
import os
import re
import stat
import sys
from collections.abc import Iterator

from fleetwright_workspace.files.folders import VENDORED

_LARGEST_FILE = 1024 * 1024
_LONGEST_LINE = 500
_BAD_PATTERN = 2


def main(arguments: list[str]) -> int:
    text, include, most, start = arguments
    try:
        pattern = re.compile(text)
    except re.error as error:
        print(error, file=sys.stderr)  # noqa: T201 - the parent reads it
        return _BAD_PATTERN
    if start == "-":
        _search("<stdin>", os.dup(0), pattern, int(most))
        return 0
    for path, descriptor in _files(start, include):
        _search(path, descriptor, pattern, int(most))
    return 0


def _files(start: str, include: str) -> Iterator[tuple[str, int]]:
    """Yield the paths and open descriptors. Each folder is opened below its parent, without following links."""
    for folder, folders, names, parent in os.fwalk(start):
        folders[:] = sorted(name for name in folders if name not in VENDORED)
        for name in sorted(names):
            path = os.path.join(folder, name)
            if include and not _is_included(path, include):
                continue
            try:
                descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=parent)
            except OSError:
                continue
            yield path, descriptor


def _is_included(path: str, include: str) -> bool:
    """Return whether the glob matches. A glob without a slash is for the name alone, as in a .gitignore."""
    relative = path[2:] if path.startswith("./") else path
    if include.startswith("!"):
        return not _is_included(path, include[1:])
    if "/" not in include:
        return fnmatch.fnmatchcase(os.path.basename(path), include)
    return fnmatch.fnmatchcase(relative, include.lstrip("/").replace("**/", "*"))


def _search(path: str, descriptor: int, pattern: re.Pattern[str], most: int) -> None:
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_FILE:
            return
        data = file.read(_LARGEST_FILE)
    if b"\0" in data:
        return
    found = 0
    for number, line in enumerate(data.decode(errors="replace").split("\n"), 1):
        if pattern.search(line):
            name = path.encode(errors="surrogateescape")
            sys.stdout.buffer.write(name + f"\0{number}:{line[:_LONGEST_LINE]}\n".encode())
            found += 1
            if found == most:
                return


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
