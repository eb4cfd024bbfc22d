"""Atomic writes, concurrent edits, paths that change meanwhile, and the undo store's limits. In one process."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from tests.support.machine import ceiling

from fleetwright_workspace.files import file_store
from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.digest import digest
from fleetwright_workspace.files.file_store import load, replace
from fleetwright_workspace.files.file_writer import EditRequest, ExpectedState, FileWriter
from fleetwright_workspace.files.root import Location, WorkspaceRoot
from fleetwright_workspace.files.undo_reports import MOST_CHARACTERS, MOST_REPORTS, UndoReports
from fleetwright_workspace.files.undo_store import MOST_TURNS, RecordedChange, UndoStore


@pytest.fixture
def root(tmp_path: Path) -> WorkspaceRoot:
    (tmp_path / "root").mkdir()
    return WorkspaceRoot(str(tmp_path / "root"))


def test_replace_refuses_a_file_that_changed(root: WorkspaceRoot) -> None:
    path = Path(root.path, "a.txt")
    path.write_text("one")
    before = load(root, root.locate("a.txt"))
    path.write_text("another")
    with pytest.raises(CallError, match="changed meanwhile"):
        replace(root, root.locate("a.txt"), b"two", before)
    with pytest.raises(CallError, match="changed meanwhile"):
        replace(root, root.locate("a.txt"), b"two", None)
    path.unlink()
    with pytest.raises(CallError, match="deleted meanwhile"):
        replace(root, root.locate("a.txt"), b"two", before)
    assert list(Path(root.path).iterdir()) == []


def test_folder_that_became_a_link_is_refused(root: WorkspaceRoot, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    folder = Path(root.path, "folder")
    folder.mkdir()
    (folder / "secret").write_text("public")
    location = root.locate("folder/secret")
    # A command replaces the folder after the path was checked.
    (folder / "secret").unlink()
    folder.rmdir()
    folder.symlink_to(outside)
    for attempt in (lambda: load(root, location), lambda: replace(root, location, b"x", None)):
        with pytest.raises(CallError) as refusal:
            attempt()
        assert refusal.value.code in ("outside", "not_found")
    assert (outside / "secret").read_text() == "secret"


def test_concurrent_edits_lose_nothing(root: WorkspaceRoot, tmp_path: Path) -> None:
    path = Path(root.path, "list.txt")
    path.write_text("".join(f"{number} open\n" for number in range(40)))
    writer = FileWriter(root, UndoStore(str(tmp_path / "undo")))
    location = root.locate("list.txt")

    def finish(first: int) -> None:
        for number in range(first, 40, 4):
            while True:
                seen = load(root, location)
                request = EditRequest(f"{number} open\n", f"{number} done\n", 1, ExpectedState(seen.digest, 0), "")
                # "1 open" occurs in "11 open" too, so the newline before belongs to it.
                if number < 30:
                    old = f"\n{number} open\n" if number else f"{number} open\n1"
                    request = request._replace(old=old, new=old.replace("open", "done"))
                with contextlib.suppress(CallError):
                    writer.edit(location, request, turn="t", dry_run=False)
                    break

    threads = [threading.Thread(target=finish, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(ceiling())
    assert path.read_text() == "".join(f"{number} done\n" for number in range(40))


def test_temporary_names_are_recognised() -> None:
    assert file_store.is_temporary(".fleetwright-0123456789abcdef.tmp")
    assert not file_store.is_temporary(".fleetwright-notes.tmp")


def test_leftovers_beside_changed_files_are_removed(root: WorkspaceRoot) -> None:
    stray, other = ".fleetwright-0123456789abcdef.tmp", ".fleetwright-notes.tmp"
    for folder in ("a/b", "c"):
        path = Path(root.path, folder)
        path.mkdir(parents=True)
        (path / stray).touch()
        (path / other).touch()
    file_store.remove_leftovers(root, ["a/b/file.txt", "gone/file.txt", "top.txt"])
    assert {str(path.relative_to(root.path)) for path in Path(root.path).rglob("*.tmp")} == {
        f"a/b/{other}", f"c/{other}", f"c/{stray}",
    }  # fmt: skip


def _change(turn: str, number: int, former: bytes) -> RecordedChange:
    return RecordedChange(turn, f"f{number}", digest(former), 0o644, digest(b"after"))


def test_undo_store_keeps_the_last_turns(tmp_path: Path) -> None:
    undo = UndoStore(str(tmp_path))
    for number in range(MOST_TURNS + 5):
        undo.record(_change(f"t{number}", number, b"%d" % number), b"%d" % number)
    assert undo.changes(["t4"]) == []
    assert undo.content(digest(b"4")) is None
    assert [change.path for change in undo.changes(["t54", "t53", "t4"])] == ["f53", "f54"]
    assert undo.content(digest(b"53")) == b"53"
    again = UndoStore(str(tmp_path))
    turns = [f"t{number}" for number in range(MOST_TURNS + 5)]
    assert len(again.changes(turns)) == MOST_TURNS
    assert again.changes(turns) == undo.changes(turns)


def test_undo_store_is_bounded_in_bytes(tmp_path: Path) -> None:
    undo = UndoStore(str(tmp_path), most_bytes=10_000)
    for number in range(20):
        undo.record(_change(f"t{number}", number, bytes([number]) * 1000), bytes([number]) * 1000)
    assert sum(entry.stat().st_size for entry in os.scandir(tmp_path / "contents")) <= 10_000
    assert undo.changes(["t0"]) == []
    assert len(undo.changes(["t19"])) == 1


def test_undo_store_ignores_damage(tmp_path: Path) -> None:
    undo = UndoStore(str(tmp_path))
    undo.record(_change("t", 1, b"former"), b"former")
    (tmp_path / "contents" / digest(b"former")).write_bytes(b"other")
    with (tmp_path / "journal.jsonl").open("a") as journal:
        journal.write('{"turn": "t", "path": "cut')
    again = UndoStore(str(tmp_path))
    assert again.content(digest(b"former")) is None
    assert len(again.changes(["t"])) == 1


@pytest.mark.parametrize(
    ("count", "size", "kept"),
    [
        pytest.param(MOST_REPORTS + 2, 1, MOST_REPORTS, id="number"),
        pytest.param(3, MOST_CHARACTERS // 2, 1, id="characters"),
        pytest.param(2, MOST_CHARACTERS, 1, id="newest stays"),
    ],
)
def test_reports_of_undos_are_bounded(tmp_path: Path, count: int, size: int, kept: int) -> None:
    reports = UndoReports(str(tmp_path))
    for number in range(count):
        reports.keep(f"u{number}", ["t"], {"restored": ["x" * size]})
    again = UndoReports(str(tmp_path))
    found = [number for number in range(count) if again.find(f"u{number}", ["t"])]
    assert found == list(range(count))[-kept:]


def test_location_of_git_is_recognised() -> None:
    assert Location((".git", "config"), ()).is_git
    assert Location(("a", "b"), ("hooks", ".Git")).is_git
    assert not Location((".github", "x"), (".gitignore",)).is_git
