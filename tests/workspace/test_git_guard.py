"""Repositories that commands make in the workspace: git outside of it runs no program that they name."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from fleetwright_workspace.files.git_guard import RepositoryGuard
from fleetwright_workspace.files.git_settings import keep_harmless_settings
from fleetwright_workspace.files.root import WorkspaceRoot

pytestmark = pytest.mark.process

PROGRAM = "touch RAN"
TRUSTED = (".git/config", ".git/hooks")


def _git(folder: Path, *words: str) -> str:
    identity = ["-c", "user.name=Tester", "-c", "user.email=t@example.com", "-c", "protocol.file.allow=always"]
    command = ["git", *identity, *words]
    return subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True).stdout


def _disarm(root: Path, *trusted: str) -> list[str]:
    opened = WorkspaceRoot(str(root))
    try:
        return RepositoryGuard(opened, trusted).disarm()
    finally:
        opened.close()


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        pytest.param("", "", id="empty"),
        pytest.param("[core]\n\tbare = false\n# a comment\n", None, id="harmless"),
        pytest.param('[branch "topic"]\n\tremote = origin\n\tmerge = refs/heads/topic\n', None, id="a branch"),
        pytest.param("[core]\n\tbare = false\n\tfsmonitor = x\n", "[core]\n\tbare = false\n", id="a monitor"),
        pytest.param("[CORE]\n\tFsMonitor = x\n", "[CORE]\n", id="upper case"),
        pytest.param("[core] fsmonitor = x\n", "", id="a setting beside the header"),
        pytest.param("[include]\n\tpath = ../evil\n", "[include]\n", id="an include"),
        pytest.param('[includeIf "gitdir:/"]\n\tpath = evil\n', '[includeIf "gitdir:/"]\n', id="a conditional include"),
        pytest.param('[filter "a\\"b"]\n\tclean = x\n', "", id="an escaped subsection"),
        pytest.param("[core]\n\tbare = a\\\nfsmonitor = x\n", "[core]\n", id="a continued line"),
        pytest.param('[core]\n\tbare = "a\n', "[core]\n", id="an open quote"),
        pytest.param("[core]\r\n\tbare = false\r\n\thooksPath = x\r\n", "[core]\n\tbare = false\n", id="CRLF"),
        pytest.param("\ufeff[core]\n\tbare = false\n", "", id="a byte order mark"),
        pytest.param("[alias]\n\tst = !x\n[user]\n\tname = A B\n", "[alias]\n[user]\n\tname = A B\n", id="an alias"),
        pytest.param("[core]\n\tfsmonitor\n", "[core]\n", id="a setting without a value"),
    ],
)
def test_configuration_keeps_harmless_settings(text: str, wanted: str | None) -> None:
    kept = keep_harmless_settings(text)
    assert kept.strip() == (text if wanted is None else wanted).strip()
    assert keep_harmless_settings(kept) == kept


def _add_repository(root: Path) -> None:
    _git(root, "init", "-q", "sub")
    _git(root / "sub", "commit", "-q", "--allow-empty", "-m", "x")
    _git(root / "sub", "config", "core.fsmonitor", PROGRAM)


def _add_submodule(root: Path) -> None:
    """Commit a repository as a submodule, so that git descends into it."""
    _add_repository(root)
    _git(root, "add", "sub")


def _add_bare_repository(root: Path) -> None:
    _git(root, "init", "-q", "--bare", "data")
    _git(root / "data", "config", "core.bare", "false")
    _git(root / "data", "config", "core.worktree", str(root))
    _git(root / "data", "config", "core.fsmonitor", PROGRAM)


def _add_pointer(root: Path) -> None:
    """Lead a `.git` file to a repository outside of the workspace, in a folder that commands can write."""
    home = root.parent / "home"
    _add_repository(_made(home))
    (_made(root / "sub") / ".git").write_text(f"gitdir: {home}/sub/.git\n")


def _add_link(root: Path) -> None:
    _add_repository(_made(root.parent / "home"))
    (_made(root / "sub") / ".git").symlink_to(root.parent / "home/sub/.git")


def _add_common_folder(root: Path) -> None:
    _add_repository(root)
    (root / "sub/.git").rename(root / "evil")
    (root / ".git/commondir").write_text("../evil\n")


def _add_hook(root: Path) -> None:
    _git(root, "init", "-q", "sub")
    hook = root / "sub/.git/hooks/post-index-change"
    hook.write_text(f"#!/bin/sh\n{PROGRAM}\n")
    hook.chmod(0o755)
    (root / "sub/a").write_text("a")


def _add_include(root: Path) -> None:
    _git(root, "init", "-q", "sub")
    (root / "evil").write_text(f"[core]\n\tfsmonitor = {PROGRAM}\n")
    _git(root / "sub", "config", "include.path", "../../evil")


def _add_locked_folder(root: Path) -> None:
    _add_repository(_made(root / "locked"))
    (root / "locked").chmod(0)


def _made(folder: Path) -> Path:
    folder.mkdir(exist_ok=True)
    return folder


@pytest.mark.parametrize(
    ("attack", "folder", "words"),
    [
        pytest.param(_add_repository, "sub", ["status"], id="a repository"),
        pytest.param(_add_submodule, ".", ["diff"], id="a submodule that the index names"),
        pytest.param(_add_bare_repository, "data", ["status"], id="a folder that looks like a repository"),
        pytest.param(_add_pointer, "sub", ["status"], id="a .git file that leads out"),
        pytest.param(_add_link, "sub", ["status"], id="a link that leads out"),
        pytest.param(_add_common_folder, ".", ["status"], id="a common folder of the user's repository"),
        pytest.param(_add_hook, "sub", ["add", "a"], id="a hook"),
        pytest.param(_add_include, "sub", ["status"], id="an included file"),
        pytest.param(_add_locked_folder, "locked/sub", ["status"], id="a folder without rights"),
    ],
)
def test_git_runs_no_program_of_a_repository(attack, folder: str, words: Sequence[str], tmp_path: Path) -> None:
    for is_guarded in (False, True):
        root = _made(_made(tmp_path / f"{is_guarded}") / "root")
        _git(root, "init", "-q")
        attack(root)
        assert bool(is_guarded and _disarm(root, *TRUSTED)) is is_guarded
        # The preparation runs the program too.
        for trace in root.parent.rglob("RAN"):
            trace.unlink()
        subprocess.run(["git", *words], cwd=root / folder, capture_output=True, check=False)
        assert bool([*root.parent.rglob("RAN")]) is not is_guarded, "the attack works, but not with the guard"
        assert not is_guarded or _disarm(root, *TRUSTED) == []


def test_links_out_of_a_repository_are_removed(tmp_path: Path) -> None:
    root = _made(tmp_path / "root")
    _git(root, "init", "-q")
    secret = tmp_path / "profile"
    secret.write_text("kept\n")
    (root / ".git/COMMIT_EDITMSG").symlink_to(secret)
    assert _disarm(root, *TRUSTED) == [".git/COMMIT_EDITMSG"]
    _git(root, "commit", "-q", "--allow-empty", "-m", "x")
    assert secret.read_text() == "kept\n"


def test_trusted_repository_stays(tmp_path: Path) -> None:
    root = _made(tmp_path / "root")
    _git(root, "init", "-q")
    _git(root, "config", "core.pager", "less")
    (root / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    (root / ".git/hooks/pre-commit").chmod(0o755)
    (root / ".git/shared").symlink_to(tmp_path)
    guard = RepositoryGuard(WorkspaceRoot(str(root)), TRUSTED)
    guard.keep_existing_links()
    assert guard.find_repositories() == [".git"]
    assert guard.disarm() == []


def test_folders_of_a_program_stay(tmp_path: Path) -> None:
    for name in ("objects/a.js", "refs/b.js", "hooks/useThing.js"):
        path = tmp_path / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        path.chmod(0o755)
    assert _disarm(tmp_path) == []
    assert sorted(path.name for path in tmp_path.rglob("*.js")) == ["a.js", "b.js", "useThing.js"]


def test_unchanged_folders_are_not_listed_again(tmp_path: Path) -> None:
    """A change is found, although the command restores the time of the folder's modification."""
    root = _made(tmp_path / "root")
    guard = RepositoryGuard(WorkspaceRoot(str(root)), [])
    _made(root / "a")
    for folder in (root, root / "a"):
        os.utime(folder, ns=(0, 0))
    assert guard.disarm() == []
    before = (root / "a").stat().st_mtime_ns
    _add_repository(root / "a")
    os.utime(root / "a", ns=(before, before))
    assert guard.disarm() == ["a/sub/.git/config"]
