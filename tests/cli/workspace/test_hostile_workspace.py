"""Attacks from a real sandbox on the programs outside: what they read without being asked is read-only or not read.

The list of these files is in SECURITY.md. Each attack runs a command in the sandbox, and then the program that it wants
to fool. An attack succeeds if the program leaves a trace, which no command in the sandbox can do by itself.
"""

import contextlib
import shutil
import signal
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.cli.workspace.hostile import HostileShop, begin_hostile_shop, install_fleetwright
from tests.support.cli.coder import git
from tests.support.machine import ceiling

from fleetwright_cli.dev.workspace.local_workspaces import find_bwrap

pytestmark = pytest.mark.process

MAKE = "git init -q {0} && cd {0} && git -c user.name=x -c user.email=x commit -q --allow-empty -m x"
FILE = 'printf "#!/bin/sh\\nPROGRAM\\n"'
SERVER = (
    "apiVersion: fleetwright.dev/v1alpha1\nkind: McpServer\nmetadata: {name: evil}\n"
    'spec: {workload: {image: x, port: 8000, command: [sh, -c, "PROGRAM"]}}\n'
)


@pytest.fixture(scope="module")
def shop(process_ring: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostileShop]:
    """Run a fleet whose manifests and state lie in the workspace."""
    if find_bwrap() is None:
        pytest.skip("needs bubblewrap")
    made = begin_hostile_shop(tmp_path_factory.mktemp("shop"))
    with made.running():
        yield made


GIT_ATTACKS = {
    "a monitor": ("git config core.fsmonitor 'PROGRAM'", "diff"),
    "a line of the configuration": ("printf '[core]\\nfsmonitor = PROGRAM\\n' >> .git/config", "status"),
    "another configuration": ("cp .git/config c && mv c .git/config && git config core.fsmonitor 'PROGRAM'", "status"),
    "another repository": (
        "mv .git g; cp -r g .git 2>/dev/null; git config core.fsmonitor 'PROGRAM'; ls -d .git/hooks", "status",
    ),
    "a hook": (f"{FILE} > .git/hooks/post-checkout; chmod +x .git/hooks/post-checkout", "checkout -q ."),
    "another folder of hooks": (f"rm -rf .git/hooks; mkdir .git/hooks && {FILE} > .git/hooks/post-commit", "status"),
    "a hook of core.hooksPath": (f"{FILE} > githooks/pre-commit", "commit -q --allow-empty -m x"),
    "a new hook of core.hooksPath": (
        f"{FILE} > githooks/post-commit; chmod +x githooks/post-commit", "commit -q --allow-empty -m x",
    ),
    "an included file": ("printf '[core]\\nfsmonitor = PROGRAM\\n' >> settings/git", "status"),
    "a missing included file": ("printf '[core]\\nfsmonitor = PROGRAM\\n' > settings/missing", "status"),
    "another folder of settings": (
        "mv settings s; mkdir settings && printf '[core]\\nfsmonitor = PROGRAM\\n' > settings/git", "status",
    ),
    "a text conversion": (f"{FILE} > tools/convert", "diff"),
    "a common folder": (
        f"({MAKE.format('evil')} && git config core.fsmonitor 'PROGRAM'); echo ../evil/.git > .git/commondir", "status",
    ),
    "the settings of a submodule": ("git -C lib config core.fsmonitor 'PROGRAM'", "status"),
    "the .git file of a submodule": (
        f"rm lib/.git; ({MAKE.format('lib')} && git config core.fsmonitor 'PROGRAM')", "status",
    ),
    "the folder of a submodule": (
        f"mv lib l; ({MAKE.format('lib')} && git config core.fsmonitor 'PROGRAM')", "status",
    ),
    "a repository in the index": (
        f"({MAKE.format('nested')}) && git add nested && git -C nested config core.fsmonitor 'PROGRAM'", "diff",
    ),
    "a new repository": (f"({MAKE.format('fresh')} && git config core.fsmonitor 'PROGRAM')", "-C fresh status"),
    "a hook of a new repository": (
        f"({MAKE.format('hooked')}); {FILE} > hooked/.git/hooks/post-commit; chmod +x hooked/.git/hooks/*",
        "-C hooked commit -q --allow-empty -m x",
    ),
    "a folder like a repository": (
        ("git init -q --bare data && cd data && git config core.bare false && git config core.worktree .. &&"
        " git config core.fsmonitor 'PROGRAM'"),
        "-C data status",
    ),
    "a new working tree": (
        ("git worktree add -q tree; git config extensions.worktreeConfig true;"
        " printf '[core]\\nfsmonitor = PROGRAM\\n' > .git/worktrees/tree/config.worktree"),
        "status",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("inside", "outside"), [pytest.param(*each, id=name) for name, each in GIT_ATTACKS.items()])
def test_git_runs_no_program_of_a_command(inside: str, outside: str, shop: HostileShop) -> None:
    shop.run_inside(inside.replace("PROGRAM", shop.program()))
    shop.run_outside("git", *outside.split())
    assert not shop.take_trace()


@pytest.mark.parametrize("place", [".git/COMMIT_EDITMSG", ".git/logs/HEAD"])
def test_git_follows_no_link_of_a_command(place: str, shop: HostileShop) -> None:
    profile = shop.root / "home/.profile"
    profile.write_text("kept\n")
    shop.run_inside(f"rm -f {place}; ln -s {profile} {place}")
    shop.run_outside("git", "commit", "-q", "--allow-empty", "-m", "x")
    assert profile.read_text() == "kept\n"


REFUSED = {
    "a hook": "touch .git/hooks/x",
    "a manifest": "touch agents/evil.yaml",
    "the folder of manifests": "mv agents a",
    "the state": "touch build/state/x",
    "the folder above the state": "mv build b",
    "a token": "cat build/state/tokens.json",
    "a file of the state": "ls build/state | grep .",
    "the repository": "mv .git g",
    "the configuration": "rm -f .git/config",
}


@pytest.mark.parametrize("command", [pytest.param(command, id=name) for name, command in REFUSED.items()])
def test_command_is_refused(command: str, shop: HostileShop) -> None:
    status, text = shop.run_inside(command)
    assert status != 0, text


def test_file_tools_refuse_trusted_files(shop: HostileShop) -> None:
    for path in ("agents/evil.yaml", ".git/hooks/x", "build/state/x", "githooks/pre-commit", "settings/git"):
        answer = shop.call("write", path=path, content="x", expected=None, turn="t", dry_run=False)
        assert (answer.status_code, answer.json()["error"]["code"]) == (422, "outside"), answer.text
    assert shop.call("read", path="build/state/tokens.json").status_code == 422


WORKFLOW = (
    "git status --short", "echo three >> notes.txt", "git add notes.txt", "git diff --cached --stat",
    "git commit -qm 'Change the notes'", "git branch topic", "git switch -q topic", "echo four >> notes.txt",
    "git stash -q", "git stash pop -q", "git commit -qam 'More'", "git switch -q -", "git merge -q topic", "git log -3",
    "git tag v1", "git mv notes.txt moved.txt && git mv moved.txt notes.txt", "git worktree list", "git gc -q",
    "python3 -m venv --without-pip .venv && .venv/bin/python -c 'print(1)'", "git init -q project",
    "git -C project commit -q --allow-empty -m x", "git -C project status",
)  # fmt: skip


def test_work_with_git_goes_on(shop: HostileShop) -> None:
    identity = "export GIT_AUTHOR_NAME=x GIT_AUTHOR_EMAIL=x GIT_COMMITTER_NAME=x GIT_COMMITTER_EMAIL=x"
    for command in WORKFLOW:
        status, text = shop.run_inside(f"{identity}; git config --global core.hooksPath /dev/null; {command}")
        assert status == 0, f"{command}: {text}"
    assert "Change the notes" in shop.run_outside("git", "log", "-3", "--format=%s").stdout


PLANTED: Sequence[str] = (
    "uvicorn.py", "fleetwright_agent.py", "fleetwright_workspace.py", "fleetwright_cli.py", "sitecustomize.py",
    "usercustomize.py", "httpx.py", "src/uvicorn.py", "src/kopf.py", "src/watchfiles.py", "src/langgraph.py",
)  # fmt: skip
PROGRAMS: Sequence[str] = ("bwrap", "git", "python3", "python", "rg", "sh", "kubectl", "fleetwright")


def test_second_start_reads_nothing_of_the_workspace(
    process_ring: None, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """The files are planted in one run. The next one starts in the workspace with its environment active."""
    if find_bwrap() is None:
        pytest.skip("needs bubblewrap")
    shop = begin_hostile_shop(tmp_path)
    module = f"open({str(shop.trace)!r}, 'w')"
    server = SERVER.replace("PROGRAM", shop.program())
    with shop.running():
        for name in PLANTED:
            status, text = shop.run_inside(f'mkdir -p src; echo "{module}" > {name}')
            assert status == 0, text
        for name in PROGRAMS:
            real = shutil.which(name) or "/bin/true"
            script = f'#!/bin/sh\\ntouch {shop.trace}\\nexec {real} "$@"\\n'
            status, text = shop.run_inside(
                f"mkdir -p .venv/bin; printf '{script}' > .venv/bin/{name}; chmod +x .venv/bin/{name}"
            )
            assert status == 0, text
        shop.run_inside("echo 'home = /evil' > .venv/pyvenv.cfg; echo 'OPENAI_API_KEY=evil' > .env")
        shop.run_inside(f"printf '{server}' > agents/evil.yaml; mv agents a; mkdir agents; cp a/* agents")
    variables = {
        "PATH": f"{shop.checkout}/.venv/bin:.venv/bin:.:{Path(shutil.which('git') or '').parent}:/usr/bin:/bin",
        "PYTHONPATH": f"src:{shop.checkout}/src",
        "VIRTUAL_ENV": f"{shop.checkout}/.venv",
        "PWD": str(shop.checkout),
        "NODE_OPTIONS": f"--require {shop.checkout}/evil.js",
        "GIT_DIR": f"{shop.checkout}/data",
    }
    with shop.running(**variables) as run:
        assert shop.call("search", pattern="price", path=".").status_code == 200
        assert shop.run_inside("echo inside")[1] == "inside\n"
        assert "evil" not in run.output()
        assert not shop.take_trace()
    assert not shop.take_trace()


def test_changes_of_manifests_in_a_workspace_wait_for_the_next_start(process_ring: None, tmp_path: Path) -> None:
    if find_bwrap() is None:
        pytest.skip("needs bubblewrap")
    shop = begin_hostile_shop(tmp_path)
    with shop.running() as run:
        assert "applied at the next start" in run.output()
        (shop.checkout / "agents/evil.yaml").write_text(SERVER.replace("PROGRAM", shop.program()))
        # The configuration is replaced after the manifest, and dev sees the former one later.
        git(shop.checkout, "config", "user.name", "Someone")
        run.wait_for_output("git or another program replaced")
        run.wait_until(shop.runs_commands, "commands run again")
        assert shop.run_inside("echo x >> .git/config")[0] != 0
        assert not shop.take_trace()
        assert "McpServer evil" not in run.output()
    assert not (shop.checkout / ".git/commondir").exists()


ENVIRONMENT_ATTACKS: Sequence[str] = (
    "touch .venv/x", "echo 'home = /evil' > .venv/pyvenv.cfg", "mv .venv v", "rm -rf .venv/bin/fleetwright",
    "echo 'import evil' > .venv/lib/python*/site-packages/evil.pth",
)  # fmt: skip


def test_environment_of_dev_itself_is_read_only(process_ring: None, tmp_path: Path) -> None:
    """The user has installed fleetwright in an environment of the workspace."""
    if find_bwrap() is None:
        pytest.skip("needs bubblewrap")
    shop = begin_hostile_shop(tmp_path)
    program = install_fleetwright(shop.checkout / ".venv")
    with shop.running(program=program):
        for command in ENVIRONMENT_ATTACKS:
            status, text = shop.run_inside(command)
            assert status != 0, f"{command}: {text}"
        status, text = shop.run_inside("python3 -m venv --without-pip other && touch other/x")
        assert status == 0, text


@pytest.mark.parametrize("is_killed", [False, pytest.param(True, marks=pytest.mark.exhaustive)])
def test_end_of_dev_disarms_a_command_that_runs(is_killed: bool, process_ring: None, tmp_path: Path) -> None:
    """A command makes a repository and does not end. After a kill, the next start disarms the repository."""
    if find_bwrap() is None:
        pytest.skip("needs bubblewrap")
    shop = begin_hostile_shop(tmp_path)
    attack = f"({MAKE.format('fresh')} && git config core.fsmonitor '{shop.program()}'); touch made; sleep 600"
    ends = contextlib.suppress(AssertionError) if is_killed else contextlib.nullcontext()
    with ends, shop.running() as run:
        command = threading.Thread(target=lambda: shop.call_until_lost(attack), daemon=True)
        command.start()
        run.wait_until((shop.checkout / "made").exists, "the command has made its repository")
        if is_killed:
            run.process.send_signal(signal.SIGKILL)
    command.join(ceiling())
    assert not command.is_alive(), "the command ends with dev"
    if is_killed:
        with shop.running():
            pass
    shop.take_trace()
    shop.run_outside("git", "status", folder="fresh")
    assert not shop.take_trace()
