"""The clone of a workspace's source, from a real `git http-backend` on loopback."""

import json
import subprocess

import pytest
from tests.support.agent.git_backend import run_git, serve_repositories

from fleetwright_agent.__main__ import main


@pytest.fixture
def repository(tmp_path):
    folder = tmp_path / "served" / "shop"
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "main.py").write_text("print('one')\n")
    (folder / "run.sh").write_text("#!/bin/sh\n")
    (folder / "run.sh").chmod(0o755)
    (folder / "link").symlink_to("src/main.py")
    run_git(folder, "init", "-q", "-b", "trunk")
    run_git(folder, "add", ".")
    run_git(folder, "commit", "-qm", "one")
    run_git(folder, "tag", "-am", "first", "v1")
    run_git(folder, "checkout", "-qb", "feature")
    (folder / "src" / "main.py").write_text("print('two')\n")
    run_git(folder, "commit", "-qam", "two")
    run_git(folder, "checkout", "-q", "trunk")
    return folder


@pytest.fixture
def server(process_ring: None, repository):
    with serve_repositories(repository.parent) as (handler, url):
        yield handler, f"{url}/shop/.git"


@pytest.fixture
def workspace(tmp_path):
    folder = tmp_path / "workspace"
    folder.mkdir()
    return folder


def fetch(capsys, url: str, into, *more: str) -> tuple[int, str, str]:
    code = main(["fetch", "workspace", f"--url={url}", f"--into={into}", "--patience=0", *more])
    said = capsys.readouterr()
    return code, json.loads(said.out)["commit"] if code == 0 else "", said.err


@pytest.mark.parametrize(
    ("ref", "branch", "text"),
    [("", "trunk", "one"), ("feature", "feature", "two"), ("v1", "", "one"), ("HASH", "", "two")],
    ids=["default branch", "branch", "annotated tag", "commit"],
)
def test_clone_checks_out_the_reference(repository, server, workspace, capsys, ref, branch, text):
    wanted = run_git(repository, "rev-parse", "feature") if ref == "HASH" else ref
    code, commit, _ = fetch(capsys, server[1], workspace, *([f"--ref={wanted}"] if wanted else []))
    assert code == 0
    assert commit == run_git(repository, "rev-parse", f"{wanted or 'trunk'}^{{commit}}")
    assert (workspace / "src" / "main.py").read_text() == f"print('{text}')\n"
    assert run_git(workspace, "branch", "--show-current") == branch
    assert run_git(workspace, "status", "--porcelain") == ""
    assert (workspace / "run.sh").stat().st_mode & 0o111
    assert (workspace / "link").readlink().as_posix() == "src/main.py"
    assert run_git(workspace, "log", "--oneline", "origin/feature").count("\n") == 1


def test_clone_never_writes_over_existing_files(server, workspace, capsys):
    (workspace / "notes.txt").write_text("mine")
    assert fetch(capsys, server[1], workspace)[:2] == (0, "")
    assert [path.name for path in workspace.iterdir()] == ["notes.txt"]


def test_repeated_clone_keeps_changed_files(repository, server, workspace, capsys):
    first = fetch(capsys, server[1], workspace)
    (workspace / "src" / "main.py").write_text("changed")
    assert fetch(capsys, server[1], workspace) == first
    assert (workspace / "src" / "main.py").read_text() == "changed"


def test_interrupted_clone_is_continued(repository, server, workspace, capsys):
    """A process that ended while it moved files left `.git` in place and other files behind."""
    fetch(capsys, server[1], workspace)
    staging = workspace / ".fleetwright-clone"
    staging.mkdir()
    (workspace / "run.sh").rename(staging / "run.sh")
    assert fetch(capsys, server[1], workspace)[0] == 0
    assert run_git(workspace, "status", "--porcelain") == ""
    assert not staging.exists()


def test_clone_leaves_no_credential_behind(server, workspace, capsys, tmp_path):
    handler, url = server
    handler.password = "s3cret"
    code, _, error = fetch(capsys, url, workspace)
    assert (code, list(workspace.glob("*"))) == (2, [])
    assert "requires authentication; name a Secret" in error
    folder = tmp_path / "credentials"
    folder.mkdir()
    (folder / "token").write_text("s3cret\n")
    assert fetch(capsys, url, workspace, f"--credentials={folder}")[0] == 0
    found = subprocess.run(["grep", "-r", "s3cret", str(workspace)], capture_output=True, check=False)
    assert found.returncode == 1


@pytest.mark.parametrize("target", ["/etc/passwd", "../../secret", "src/../../x"])
def test_clone_refuses_a_link_that_leads_out(repository, server, workspace, capsys, target):
    (repository / "bad").symlink_to(target)
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "bad")
    code, _, error = fetch(capsys, server[1], workspace)
    assert code == 65
    assert "the link 'bad' of the repository leads out of the workspace" in error
    assert not (workspace / "bad").exists()


@pytest.mark.parametrize(
    ("links", "refused"),
    [
        pytest.param({"a/b/c": "../..", "e": "a/b/c/../outside"}, "e", id="parent of a linked folder"),
        pytest.param({"loop": "loop"}, "loop", id="loop"),
        pytest.param({"one": "two/x", "two": "one/y"}, "one", id="loop of two links that grow"),
        pytest.param({"a/b/c": "../..", "f": "a/b/c/src/main.py"}, "", id="linked folder inside"),
        pytest.param({"a/up": "../src", "g": "a/up/../run.sh"}, "", id="parent inside"),
    ],
)
def test_clone_resolves_each_link(repository, server, workspace, capsys, links, refused):
    for name, target in links.items():
        (repository / name).parent.mkdir(parents=True, exist_ok=True)
        (repository / name).symlink_to(target)
    run_git(repository, "add", ".")
    run_git(repository, "commit", "-qm", "links")
    code, _, error = fetch(capsys, server[1], workspace)
    assert code == (65 if refused else 0)
    assert not refused or f"the link '{refused}' of the repository leads out of the workspace" in error


def test_clone_of_an_unknown_reference_names_the_field(server, workspace, capsys):
    code, _, error = fetch(capsys, server[1], workspace, "--ref=nowhere")
    assert code == 2
    assert "no branch, tag or commit 'nowhere'; check workspace.source.git.ref" in error
