"""Commands that run without approval, run for real in a hostile repository: they change nothing and start nothing."""

import hashlib
import os
import posixpath
import shutil
import subprocess
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import count_examples

from fleetwright_agent.tools.workspace.shell.git import unsafe_key
from fleetwright_agent.tools.workspace.shell.readers import READERS
from fleetwright_agent.tools.workspace.shell.tier import ShellAllow, tier

pytestmark = pytest.mark.process
SECONDS = 200
IDENTITY = {"GIT_AUTHOR_NAME": "a", "GIT_AUTHOR_EMAIL": "a@b", "GIT_COMMITTER_NAME": "a", "GIT_COMMITTER_EMAIL": "a@b"}
HOSTILE = """
[core]
  fsmonitor = {program}
  hooksPath = {hooks}
  pager = {program}
  editor = {program}
  sshCommand = {program}
  askPass = {program}
  alternateRefsCommand = {program}
[diff]
  external = {program}
[diff "evil"]
  command = {program}
  textconv = {program}
[pager]
  log = {program}
  diff = {program}
  status = {program}
  branch = {program}
[log]
  showSignature = true
[gpg]
  program = {program}
[gpg "ssh"]
  program = {program}
[alias]
  st = !{program}
[interactive]
  diffFilter = {program}
[credential]
  helper = !{program}
[remote "origin"]
  url = ext::{program}
  promisor = true
[protocol "ext"]
  allow = always
[submodule]
  recurse = true
"""
FILTER = """
[filter "evil"]
  clean = {program}
  smudge = {program}
  required = true
"""


@dataclass(frozen=True)
class HostileRepository:
    root: Path
    program: Path
    outside: Path

    @property
    def environment(self) -> dict[str, str]:
        home = str(self.outside / "home")
        return {"HOME": home, "PATH": f"{self.root}:{os.environ['PATH']}", "TMPDIR": str(self.outside / "tmp")}

    def git(self, *arguments: str) -> None:
        environment = {**os.environ, **IDENTITY, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
        subprocess.run(["git", *arguments], cwd=self.root, env=environment, check=True, capture_output=True)

    def run(self, command: ShellAllow, argv: tuple[str, ...]) -> subprocess.CompletedProcess[bytes]:
        environment = {**self.environment, **command.environment}
        program = shutil.which(argv[0], path=environment["PATH"])
        if program is None:
            pytest.skip(f"{argv[0]} is not installed")
        return subprocess.run(
            [program, *argv[1:]],
            cwd=self.root,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )

    def state(self) -> dict[str, tuple[int, int, str]]:
        """Return mode, time and contents of every file and folder, inside the repository and outside."""
        return {str(path): _state(path) for path in sorted(self.outside.rglob("*"))}


def _state(path: Path) -> tuple[int, int, str]:
    about = path.lstat()
    content = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() and not path.is_symlink() else ""
    return about.st_mode, about.st_mtime_ns, content


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> HostileRepository:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "home/.config/git").mkdir(parents=True)
    (outside / "tmp").mkdir()
    (outside / "secret.txt").write_text("secret\n")
    program = outside / "evil.sh"
    program.write_text(f"#!/bin/sh\ntouch {outside}/harmed-$$\ncat\n")
    program.chmod(0o755)
    repository = HostileRepository(outside / "repository", program, outside)
    repository.root.mkdir()
    (repository.root / "src").mkdir()
    for name in ("a.txt", "b.txt", "src/app.py", "names"):
        (repository.root / name).write_text("price one\ntwo 2\none\n")
    (repository.root / ".gitattributes").write_text("* diff=evil filter=evil\n")
    # Programs with the names of readers, a configuration of ripgrep, and links that leave the repository.
    for name in ("cat", "ls", "git", "grep", "script"):
        shutil.copy(program, repository.root / name)
    (repository.root / ".ripgreprc").write_text(f"--pre={program}\n")
    (repository.root / "link").symlink_to(outside)
    hooks = repository.root / "hooks"
    hooks.mkdir()
    for name in ("post-index-change", "pre-commit", "post-checkout", "reference-transaction"):
        shutil.copy(program, hooks / name)
    repository.git("init", "-q", "-b", "main")
    repository.git("add", ".")
    repository.git("commit", "-qm", "one")
    repository.git("branch", "feature")
    (repository.root / "a.txt").write_text("price changed\n")
    os.utime(repository.root / "b.txt", (1, 1))
    config = repository.root / ".git/config"
    config.write_text(config.read_text() + HOSTILE.format(program=program, hooks=hooks))
    (outside / "home/.gitconfig").write_text(HOSTILE.format(program=program, hooks=hooks))
    return repository


GIT = ("status", "diff", "log", "show", "branch", "tag", "blame", "config", "grep", "ls-files", "reflog", "remote")
ARGUMENTS = Path(__file__).with_name("shell_arguments.txt").read_text().splitlines()


@st.composite
def commands(draw: st.DrawFn) -> str:
    name = draw(st.sampled_from([*READERS, "find", "sed", "sed", "date", *[f"git {each}" for each in GIT] * 2]))
    arguments = draw(st.lists(st.sampled_from(ARGUMENTS), max_size=4))
    return " ".join([name, *(f"'{each}'" for each in arguments)])


def is_inside(root: Path, path: str) -> bool:
    real = os.path.realpath(posixpath.join(root, path))
    return real == str(root) or real.startswith(f"{root}/")


def has_unsafe_key(hostile: HostileRepository, command: ShellAllow) -> bool:
    listed = hostile.run(replace(command, environment={**command.environment, "LC_ALL": "C"}), command.check)
    assert listed.returncode == 0
    return unsafe_key(listed.stdout.decode(errors="replace"))


@settings(
    max_examples=count_examples(400),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.filter_too_much, HealthCheck.too_slow],
)
@given(command=commands())
def test_free_commands_change_nothing(hostile: HostileRepository, command: str) -> None:
    found = tier(command)
    if not isinstance(found, ShellAllow) or not all(is_inside(hostile.root, path) for path in found.paths):
        return
    if shutil.which(found.argv[0], path=found.environment["PATH"]) is None:
        return
    before = hostile.state()
    if not found.check or not has_unsafe_key(hostile, found):
        hostile.run(found, found.argv)
    assert hostile.state() == before


@pytest.mark.parametrize("command", [f"git {each}" for each in ("status", "diff", "log -p", "show", "blame a.txt")])
def test_git_reads_start_no_program_of_the_repository(hostile: HostileRepository, command: str) -> None:
    found = tier(command)
    assert isinstance(found, ShellAllow)
    before = hostile.state()
    assert not found.check or not has_unsafe_key(hostile, found)
    result = hostile.run(found, found.argv)
    assert (result.returncode, hostile.state()) == (0, before), result.stderr


@pytest.mark.parametrize("name", [b"evil", b"\xff", b"a.b", "\u00e9".encode(), b" "], ids=repr)
@pytest.mark.parametrize("command", ["git status", "git diff", "git blame a.txt", "git grep price", "git ls-files -m"])
def test_check_finds_the_filters_of_a_repository(hostile: HostileRepository, command: str, name: bytes) -> None:
    config = hostile.root / ".git/config"
    plain = config.read_text()
    config.write_bytes(plain.encode() + FILTER.format(program=hostile.program).encode().replace(b"evil", name))
    try:
        found = tier(command)
        assert isinstance(found, ShellAllow)
        assert has_unsafe_key(hostile, found)
    finally:
        config.write_text(plain)


def test_hostile_repository_harms_without_the_policy(hostile: HostileRepository) -> None:
    """The programs of the repository run if git is called as it is, so the other tests can fail."""
    environment = {**os.environ, **IDENTITY, "HOME": str(hostile.outside / "home")}
    subprocess.run(["git", "diff"], cwd=hostile.root, env=environment, capture_output=True, check=False)
    harmed = list(hostile.outside.glob("harmed-*"))
    for each in harmed:
        each.unlink()
    assert harmed


@pytest.mark.parametrize("command", ["diff -r src other", "diff -ru src other", "diff src other", "diff -rN src other"])
def test_diff_of_folders_follows_no_link(hostile: HostileRepository, command: str) -> None:
    other = hostile.root / "other"
    other.mkdir()
    for folder in (hostile.root / "src", other):
        (folder / "leaves").symlink_to(hostile.outside)
        (folder / "names").symlink_to(hostile.outside / f"{folder.name}-secret.txt")
        (hostile.outside / f"{folder.name}-secret.txt").write_text(f"secret of {folder.name}\n")
    found = tier(command)
    try:
        assert isinstance(found, ShellAllow)
        result = hostile.run(found, found.argv)
    finally:
        shutil.rmtree(other)
        for name in ("leaves", "names"):
            (hostile.root / "src" / name).unlink()
    assert result.returncode == 1
    assert b"secret of" not in result.stdout
