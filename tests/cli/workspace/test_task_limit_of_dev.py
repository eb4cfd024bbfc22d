"""The kernel's limit on the processes of commands in `fleetwright dev`: by user namespace, and by cgroup for root."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.bombs import THREAD_BOMB
from tests.support.machine import ceiling
from tests.support.user_namespace import namespace_prefix, shared_folder, system_python, unprivileged_user
from tests.support.waiting import wait_until
from tests.support.workspace import LocalWorkspace, end_of, output_of

from fleetwright_cli.dev.workspace.sandbox import SOCKET, PythonPlace, WorkspacePlace, shell_command
from fleetwright_cli.dev.workspace.task_cgroups import TaskCgroups
from fleetwright_workspace.install import install

PROCESSES = 50


class _Sandbox(LocalWorkspace):
    """A workspace whose executor runs in the sandbox of `dev`, for a user who is not root."""

    def __init__(self, folder: Path, bwrap: str) -> None:
        self._bwrap = bwrap
        super().__init__(folder, system_python())

    def start_executor(self, *options: str) -> "subprocess.Popen[bytes]":
        place = WorkspacePlace(
            root=self.root,
            state=self.folder / "state",
            home=self.folder / "home",
            sockets=self.folder / "sockets",
            program=self.folder / "program",
            port=0,
        )
        for path in (place.root, place.home, place.sockets):
            path.mkdir(exist_ok=True)
            os.chown(path, unprivileged_user(), -1)
        install(str(place.program))
        python = PythonPlace(Path(self.python), (Path("/usr"),), Path("/usr"))
        user = str(unprivileged_user())
        other = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if os.getuid() == 0 else []
        command = [*other, *shell_command(place, python, bwrap=self._bwrap), f"--processes={PROCESSES}", *options]
        process = subprocess.Popen(command, cwd=self.folder)
        wait_until((place.sockets / SOCKET).exists, "the executor listens")
        (self.folder / "socket").symlink_to(place.sockets / SOCKET)
        return process


@pytest.fixture
def sandbox(process_ring: None) -> Iterator[LocalWorkspace]:
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        pytest.skip("needs bubblewrap")
    namespace_prefix()
    with shared_folder() as folder:
        running = _Sandbox(folder, bwrap)
        yield running
        running.stop()


def test_sandbox_has_a_limit_of_its_own(sandbox: LocalWorkspace) -> None:
    lines = sandbox.run("cat /proc/self/uid_map; ulimit -u; ulimit -Hu")
    user, _, count, *limits = output_of(lines).split()
    assert (user, count, limits) == (str(unprivileged_user()), "1", [str(2 * PROCESSES)] * 2)


def test_bomb_in_the_sandbox_is_ended(sandbox: LocalWorkspace) -> None:
    lines = sandbox.run(["/usr/bin/python3", "-c", THREAD_BOMB], seconds=60)
    refused, count = output_of(lines).split()
    assert (refused, end_of(lines)["stopped"]) == ("refused", "processes")
    assert int(count) <= 2 * PROCESSES
    assert output_of(sandbox.run("echo alive")) == "alive\n"


def _make_folders(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    return tmp_path


ROOT = {"cgroup.subtree_control": "cpu pids\n"}


@pytest.mark.parametrize(
    ("own", "files", "wanted"),
    [
        pytest.param("8:pids:/\n0::/\n", {"pids/tasks": ""}, "pids", id="version 1"),
        pytest.param("8:cpu,pids:/a/b\n", {"pids/a/b/tasks": ""}, "pids/a/b", id="version 1, below"),
        pytest.param("0::/\n", ROOT, ".", id="version 2, root"),
        pytest.param("0::/\n", {"cgroup.subtree_control": "cpu\n"}, None, id="version 2, no controller"),
        pytest.param("0::/s/u\n", {**ROOT, "s/cgroup.subtree_control": "pids", "s/u/x": ""}, None, id="not delegated"),
        pytest.param("0::/s/u\n", {**ROOT, "s/u/cgroup.subtree_control": "pids"}, "s/u", id="version 2, below"),
        pytest.param("0::/../..\n", {}, None, id="outside of the cgroup namespace"),
        pytest.param("", {}, None, id="no cgroups"),
    ],
)
def test_cgroup_is_made_where_root_may(tmp_path: Path, own: str, files: dict[str, str], wanted: str | None) -> None:
    mounts = _make_folders(tmp_path, files)
    command = TaskCgroups(1, 4000, mounts=mounts, own=own).wrap_command("shell-desk", ["bwrap", "x"])
    if wanted is None:
        assert command is None
        assert not list(tmp_path.rglob("fleetwright-dev-*"))
        return
    made = mounts / wanted / "fleetwright-dev-1-shell-desk"
    assert (made / "pids.max").read_text() == "4000"
    assert command is not None
    assert command[3:] == [f"{made}/cgroup.procs", "bwrap", "x"]


def test_cgroups_of_killed_runs_are_removed(tmp_path: Path) -> None:
    # A process id is at most 2^22.
    killed, running = "fleetwright-dev-4194305-shell-desk", f"fleetwright-dev-{os.getpid()}-shell-desk"
    for name in (killed, running, "other-4194305-shell"):
        (tmp_path / "pids" / name).mkdir(parents=True)
    TaskCgroups(1, 4000, mounts=tmp_path, own="8:pids:/").wrap_command("shell", ["true"])
    left = {path.name for path in (tmp_path / "pids").iterdir()}
    assert left == {running, "other-4194305-shell", "fleetwright-dev-1-shell"}


def test_cgroup_is_made_in_a_delegated_parent(tmp_path: Path) -> None:
    mounts = _make_folders(tmp_path, {"s/cgroup.subtree_control": "pids", "s/u/cgroup.subtree_control": ""})
    try:
        os.setxattr(mounts / "s", "user.delegate", b"1")
    except OSError:
        pytest.skip("needs a file system with attributes of users")
    assert TaskCgroups(1, 4000, mounts=mounts, own="0::/s/u").wrap_command("shell", ["true"]) is not None
    assert (mounts / "s/fleetwright-dev-1-shell/pids.max").exists()


@pytest.mark.process
def test_cgroup_limits_root() -> None:
    cgroups = TaskCgroups(os.getpid(), 40)
    command = cgroups.wrap_command("shell", [system_python(), "-c", THREAD_BOMB.replace("time.sleep(100)", "")])
    try:
        if command is None:
            pytest.skip("needs the right to make a cgroup with pids.max")
        done = subprocess.run(command, capture_output=True, text=True, timeout=ceiling(), check=False)
        assert done.stdout.split() == ["refused", "39"], done.stderr
    finally:
        cgroups.remove()
    assert command is not None
    assert not Path(command[3]).parent.exists()


@pytest.mark.process
def test_program_starts_if_the_kernel_refuses_the_move(tmp_path: Path) -> None:
    mounts = _make_folders(tmp_path, {"pids/tasks": ""})
    command = TaskCgroups(1, 4000, mounts=mounts, own="8:pids:/").wrap_command("shell", ["echo", "started"])
    assert command is not None
    (mounts / "pids/fleetwright-dev-1-shell/cgroup.procs").mkdir()
    done = subprocess.run(command, capture_output=True, text=True, timeout=ceiling(), check=True)
    assert done.stdout == "started\n"
