"""Lists folders, draws the tree of the workspace, and finds instructions and similar names. All answers are bounded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.file_store import is_temporary
from fleetwright_workspace.files.root import Location, WorkspaceRoot

INSTRUCTIONS = "AGENTS.md"
VENDORED = frozenset(
    {
        ".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".mypy_cache", ".ruff_cache",
        ".pytest_cache", ".tox", ".gradle", ".next", ".cache", "bower_components",
    }
)  # fmt: skip
_TREE_CHARACTERS = 8000
_INSTRUCTION_CHARACTERS = 32_000
_NEAREST = 3
_NEAREST_DEPTH = 6
_NEAREST_CANDIDATES = 50
_MOST_VISITED = 20_000
_LONGEST_FOLDER = 20_000
"""Entries that are read of one folder; the others are not looked at."""


def list_folder(root: WorkspaceRoot, location: Location, *, depth: int, limit: int) -> dict[str, object]:
    """Return the entries of a folder, and of its folders down to this depth."""
    entries: list[dict[str, object]] = []
    truncated = False
    for name, status in _walk(root, location, depth):
        if len(entries) == limit:
            truncated = True
            break
        entries.append({"name": name, "kind": kind_of(status), "size": status.st_size})
    return {"path": location.path, "entries": entries, "truncated": truncated}


def draw_tree(root: WorkspaceRoot, *, depth: int, entries: int) -> str:
    """Return the tree of the workspace, with two spaces for each level."""
    lines: list[str] = []
    _draw(root, root.locate("."), depth, entries, "", lines)
    text = "\n".join(lines)
    if len(text) <= _TREE_CHARACTERS:
        return text
    return text[: text.rfind("\n", 0, _TREE_CHARACTERS - 2)] + "\n…"


def find_instructions(root: WorkspaceRoot, paths: list[str]) -> list[dict[str, str]]:
    """Return the nearest AGENTS.md upward of each path, each file once."""
    found: dict[str, str] = {}
    for path in paths:
        parts = root.locate(path).parts
        for length in range(len(parts), -1, -1):
            candidate = "/".join((*parts[:length], INSTRUCTIONS))
            text = found.get(candidate)
            if text is None:
                text = _instructions(root, candidate)
            if text is not None:
                found[candidate] = text
                break
    return [{"path": path, "text": text} for path, text in found.items()]


def nearest_names(root: WorkspaceRoot, path: str) -> list[str]:
    """Return up to three paths of files whose names resemble the missing one."""
    import difflib

    name = path.rstrip("/").rpartition("/")[2].lower()
    matcher = difflib.SequenceMatcher(b=name)
    candidates: list[tuple[float, str]] = []
    for visited, (found, status) in enumerate(_walk(root, root.locate("."), _NEAREST_DEPTH, skip_vendored=True)):
        if visited >= _MOST_VISITED or len(candidates) >= _NEAREST_CANDIDATES:
            break
        if stat.S_ISDIR(status.st_mode):
            continue
        matcher.set_seq1(found.rpartition("/")[2].lower())
        if matcher.real_quick_ratio() >= 0.6 and matcher.quick_ratio() >= 0.6 and matcher.ratio() >= 0.6:
            candidates.append((-matcher.ratio(), found))
    return [found for _, found in sorted(candidates)[:_NEAREST]]


def kind_of(status: os.stat_result) -> str:
    if stat.S_ISDIR(status.st_mode):
        return "directory"
    if stat.S_ISREG(status.st_mode):
        return "file"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def _walk(
    root: WorkspaceRoot, location: Location, depth: int, *, skip_vendored: bool = False
) -> Iterator[tuple[str, os.stat_result]]:
    """Yield names relative to the folder, level by level. Links are not followed, and .git is not entered."""
    level = [""]
    for _ in range(depth):
        deeper: list[str] = []
        for prefix in level:
            try:
                found = _entries(root, Location((*location.parts, *prefix.split("/")[:-1]), ()))
            except CallError:
                if not prefix:
                    raise
                continue
            for name, status in found:
                yield prefix + name, status
                if stat.S_ISDIR(status.st_mode) and name not in (VENDORED if skip_vendored else (".git",)):
                    deeper.append(f"{prefix}{name}/")
        level = deeper


def _entries(root: WorkspaceRoot, location: Location) -> list[tuple[str, os.stat_result]]:
    found: list[tuple[str, os.stat_result]] = []
    with root.folder(location) as folder, os.scandir(folder) as entries:
        for entry in entries:
            if is_temporary(entry.name):
                continue
            try:
                found.append((_printable(entry.name), entry.stat(follow_symlinks=False)))
            except OSError:
                continue
            if len(found) == _LONGEST_FOLDER:
                break
    return sorted(found, key=lambda item: item[0])


def _draw(root: WorkspaceRoot, location: Location, depth: int, entries: int, indent: str, lines: list[str]) -> None:
    try:
        found = _entries(root, location)
    except CallError:
        return
    for name, status in found[:entries]:
        is_folder = stat.S_ISDIR(status.st_mode)
        lines.append(f"{indent}{name}{'/' if is_folder else ''}")
        if is_folder and depth > 1 and name not in VENDORED and len(lines) < _TREE_CHARACTERS:
            _draw(root, Location((*location.parts, name), ()), depth - 1, entries, f"{indent}  ", lines)
    if len(found) > entries:
        lines.append(f"{indent}… {len(found) - entries} more")


def _instructions(root: WorkspaceRoot, path: str) -> str | None:
    try:
        with root.file(root.locate(path)) as (descriptor, _):
            data = os.read(descriptor, 4 * _INSTRUCTION_CHARACTERS)
    except CallError:
        return None
    return data.decode(errors="replace")[:_INSTRUCTION_CHARACTERS]


def _printable(name: str) -> str:
    """Return a name that UTF-8 can encode. Bytes that are not UTF-8 are replaced."""
    return name.encode(errors="surrogateescape").decode(errors="replace")
