"""Files of repositories that are not named `.git`: the runner does not write them."""

import subprocess
from pathlib import Path

import pytest

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.git_folders import refuse_git
from fleetwright_workspace.files.root import WorkspaceRoot


def is_refused(folder: Path, path: str) -> bool:
    root = WorkspaceRoot(str(folder))
    try:
        refuse_git(root, root.locate(path))
    except CallError as error:
        return error.code == "outside"
    finally:
        root.close()
    return False


@pytest.mark.parametrize(
    ("known", "path", "refused"),
    [
        (["a/HEAD", "a/objects/", "a/refs/"], "a/config", True),
        (["a/HEAD", "a/objects/", "a/refs/"], "a/hooks/pre-commit", True),
        (["a/HEAD", "a/objects/", "a/refs/"], "a/new/folder/x", True),
        (["a/HEAD", "a/objects/", "a/refs/"], "b/config", False),
        (["HEAD", "objects/", "refs/"], "config", True),
        (["a/HEAD", "a/commondir"], "a/config.worktree", True),
        (["a/objects/", "a/refs/"], "a/HEAD", True),
        (["a/HEAD", "a/objects/"], "a/refs/heads/main", True),
        (["a/HEAD"], "a/commondir", True),
        (["a/objects/", "a/refs/"], "a/config", False),
        (["a/HEAD", "a/objects", "a/refs"], "a/config", True),
        (["a/HEAD@", "a/objects/", "a/refs/"], "a/config", True),
        (["a/HEAD@", "a/commondir"], "a/config", True),
        (["a/HEAD", "a/objects@", "a/refs@"], "a/config", True),
        (["a/HEAD"], "a/b", False),
        ([], "a/HEAD", False),
        ([".git/HEAD"], ".git/x", True),
    ],
)
def test_write_to_a_repository_is_refused(tmp_path: Path, known: list[str], path: str, refused: bool) -> None:
    for name in known:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("@"):
            (tmp_path / name[:-1]).symlink_to("refs/heads/missing")
        else:
            (tmp_path / name).mkdir() if name.endswith("/") else (tmp_path / name).touch()
    assert is_refused(tmp_path, path) is refused


@pytest.mark.parametrize(
    "path", ["kept/config", "kept/hooks/x", "kept/worktrees/more/config.worktree", "bare.git/config"]
)
def test_repositories_of_git_are_recognised(process_ring: None, tmp_path: Path, path: str) -> None:
    for words in (
        ["init", "-q", "--bare", "bare.git"],
        ["init", "-q", "--separate-git-dir", "kept", "work"],
        ["-C", "work", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "one", "--allow-empty"],
        ["-C", "work", "worktree", "add", "-q", "../more"],
    ):
        subprocess.run(["git", *words], cwd=tmp_path, check=True, capture_output=True)
    assert (tmp_path / "work/.git").is_file()
    assert is_refused(tmp_path, path)
    assert not is_refused(tmp_path, "more/config")
