"""Searches with ripgrep and with the walk: equal answers, bounded in number and time."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.search import FileSearch, find_ripgrep, parse_matches

Search = Callable[..., dict[str, Any]]
pytestmark = pytest.mark.process

FILES = {
    "old.py": "needle one\n",
    "new.py": "x\nneedle two\n",
    "sub/deep.txt": "needle three\n",
    "sub/.hidden": "needle four\n",
    "node_modules/x.js": "needle five\n",
    ".git/config": "needle six\n",
    "binary": "needle\0seven\n",
    "long.txt": "needle " + "x" * 5000 + "\n",
}


@pytest.fixture(params=["rg", "walk"])
def search(request: pytest.FixtureRequest, tmp_path: Path) -> Search:
    if request.param == "rg" and find_ripgrep() is None:
        pytest.skip("needs ripgrep")
    for number, (name, text) in enumerate(FILES.items()):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        os.utime(path, (1_000_000 + number, 1_000_000 + number))
    (tmp_path / "link.txt").symlink_to("/etc/passwd")
    root = WorkspaceRoot(str(tmp_path))
    search = FileSearch(root, ripgrep=find_ripgrep() if request.param == "rg" else None)
    return lambda pattern, path=".", include="", limit=100: search.run(
        pattern, root.locate(path), include=include, limit=limit
    )


@pytest.mark.parametrize(
    ("fields", "wanted"),
    [
        pytest.param({}, ["long.txt", "sub/.hidden", "sub/deep.txt", "new.py", "old.py"], id="newest first"),
        pytest.param({"include": "*.py"}, ["new.py", "old.py"], id="include a name"),
        pytest.param({"include": "sub/*.txt"}, ["sub/deep.txt"], id="include a path"),
        pytest.param({"path": "sub"}, ["sub/.hidden", "sub/deep.txt"], id="a folder"),
        pytest.param({"path": "sub/deep.txt"}, ["sub/deep.txt"], id="a file"),
        pytest.param({"limit": 2}, ["long.txt", "sub/.hidden"], id="limit"),
    ],
)
def test_search_finds_files(search: Search, fields: dict[str, Any], wanted: list[str]) -> None:
    answer = search("needle [a-z]", **fields)
    assert [match["path"] for match in answer["matches"]] == wanted
    assert answer["truncated"] is ("limit" in fields)
    assert all(len(match["text"]) <= 600 for match in answer["matches"])


def test_search_tells_line_and_text(search: Search) -> None:
    assert search("two$")["matches"] == [{"path": "new.py", "line": 2, "text": "needle two"}]


def test_search_takes_patterns_as_data(search: Search) -> None:
    assert search("--files")["matches"] == []
    with pytest.raises(CallError, match="pattern"):
        search("(")


def test_search_of_a_missing_folder_is_refused(search: Search) -> None:
    with pytest.raises(CallError) as refusal:
        search("x", "missing")
    assert refusal.value.code == "not_found"


@pytest.mark.parametrize(
    ("pattern", "path", "swapped"),
    [
        pytest.param("secret", "a.txt", "a.txt", id="the file itself"),
        pytest.param("secret", "sub/a.txt", "sub", id="its folder"),
        pytest.param("secret", "sub", "sub", id="the folder of the search"),
    ],
)
@pytest.mark.parametrize("ripgrep", [True, False], ids=["rg", "walk"])
def test_search_refuses_a_swapped_link(tmp_path: Path, pattern: str, path: str, swapped: str, ripgrep: bool) -> None:
    outside = tmp_path / "outside"
    inside = tmp_path / "root"
    for folder in (outside, inside, inside / "sub"):
        folder.mkdir()
        (folder / "a.txt").write_text("secret\n" if folder == outside else "public\n")
    root = WorkspaceRoot(str(inside))
    location = root.locate(path)
    (inside / swapped).rename(inside / "moved")
    (inside / swapped).symlink_to(outside / "a.txt" if swapped == "a.txt" else outside)
    search = FileSearch(root, ripgrep=find_ripgrep() if ripgrep else None)
    try:
        matches = search.run(pattern, location, include="", limit=10)["matches"]
    except CallError as error:
        assert error.code in ("outside", "not_found", "not_text")  # noqa: PT017 - a refusal is one good answer
    else:
        assert matches == []


def test_match_of_a_followed_link_is_dropped(tmp_path: Path) -> None:
    """This program stands for ripgrep that met a file, which a command then replaced by a link."""
    (tmp_path / "real.txt").write_text("public\nneedle one\n")
    (tmp_path / "swapped.txt").symlink_to("/etc/hostname")
    program = tmp_path / "program"
    lines = ["./swapped.txt\\0001:needle", "./real.txt\\0001:needle", "./real.txt\\0002:needle one"]
    program.write_text("#!/bin/sh\n" + "".join(f"printf '{line}\\n'\n" for line in lines))
    program.chmod(0o755)
    root = WorkspaceRoot(str(tmp_path))
    answer = FileSearch(root, ripgrep=str(program)).run("needle", root.locate("."), include="", limit=10)
    assert answer["matches"] == [{"path": "real.txt", "line": 2, "text": "needle one"}]


def test_hostile_pattern_ends_in_time(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a" * 40 + "!\n")
    root = WorkspaceRoot(str(tmp_path))
    search = FileSearch(root, ripgrep=None, seconds=1)
    assert search.run("(a+)+$", root.locate("."), include="", limit=10)["truncated"] is True


def test_parse_matches_survives_odd_names() -> None:
    assert parse_matches(b"./a\nb\0001:text\n./c\0002:t\n") == {"b": [(1, "text")], "c": [(2, "t")]}


def test_ripgrep_is_found_on_the_path() -> None:
    assert find_ripgrep() == shutil.which("rg")


def test_search_imports_nothing_from_the_searched_folder(search: Search, tmp_path: Path) -> None:
    for name in ("fnmatch.py", "fleetwright_workspace.py", "runpy.py", "sitecustomize.py"):
        (tmp_path / name).write_text(f"open({str(tmp_path / 'RAN')!r}, 'w')\n")
    assert search("needle one")["matches"]
    assert not (tmp_path / "RAN").exists()
