"""The kernel's limit on the processes and threads of commands. Every bomb here is bounded to a few hundred."""

import json
import os
import resource
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.support.bombs import PROCESS_BOMB, THREAD_BOMB
from tests.support.machine import ceiling
from tests.support.user_namespace import namespace_prefix, shared_folder, system_python, unprivileged_user
from tests.support.waiting import wait_until
from tests.support.workspace import LocalWorkspace, end_of, output_of

from fleetwright_workspace.executor.task_limit import (
    counts_own_tasks,
    describe_missing_limit,
    has_own_task_count,
    read_cgroup_limits,
)
from fleetwright_workspace.install import install

PROCESSES = 50
MOST_TASKS = 2 * PROCESSES
COUNT = """
import json, os, sys, time
from fleetwright_workspace.executor.task_limit import limit_tasks
limit_tasks(int(sys.argv[1]))
reading, writing = os.pipe()
count, why = 0, None
try:
    while count < 200:
        if os.fork() == 0:
            os.close(writing)
            os.read(reading, 1)
            os._exit(0)
        count += 1
except OSError as error:
    why = error.strerror
print(json.dumps([count, why]))
"""


class _Namespace(LocalWorkspace):
    """A workspace whose executor has a user namespace of its own, and optionally an inherited hard limit."""

    def __init__(self, folder: Path, *, inherited: int | None = None) -> None:
        self._prefix = namespace_prefix()
        self._inherited = inherited
        super().__init__(folder, system_python())

    def start_executor(self, *options: str) -> "subprocess.Popen[bytes]":
        os.chown(self.root, unprivileged_user(), -1)
        return super().start_executor("--processes", str(PROCESSES), *options)

    def executor_prefix(self) -> list[str]:
        if self._inherited is None:
            return self._prefix
        return [*self._prefix, "/usr/bin/env", "prlimit", f"--nproc={self._inherited}:{self._inherited}"]


@pytest.fixture
def start_namespace(process_ring: None) -> Iterator[Callable[..., _Namespace]]:
    running: list[_Namespace] = []
    with shared_folder() as folder:

        def start(inherited: int | None = None) -> _Namespace:
            running.append(_Namespace(folder, inherited=inherited))
            return running[-1]

        yield start
        for workspace in running:
            workspace.stop()


@pytest.mark.parametrize(
    ("uid_map", "release", "wanted"),
    [
        pytest.param("         0          0 4294967295\n", "6.18.44", False, id="initial namespace"),
        pytest.param("      1000       1000          1\n", "6.18.44", True, id="bubblewrap"),
        pytest.param("         0     100000      65536\n", "5.14.0-427.el9", True, id="pod with hostUsers false"),
        pytest.param("", "6.1.0-18-amd64", True, id="no user is mapped"),
        pytest.param("      1000       1000          1\n", "5.10.0", False, id="kernel that counts the whole machine"),
        pytest.param("      1000       1000          1\n", "4.4.0", False, id="gVisor"),
        pytest.param("      1000       1000          1\n", "unknown", False, id="unknown release"),
    ],
)
def test_limit_needs_a_namespace_that_counts_its_own_tasks(uid_map: str, release: str, wanted: bool) -> None:
    assert counts_own_tasks(uid_map, release) is wanted


@pytest.mark.parametrize(
    ("own_count", "cgroup_limits", "is_missing"),
    [
        pytest.param(False, [], True, id="no cgroup"),
        pytest.param(False, ["max\n"], True, id="no limit of the container"),
        pytest.param(False, ["1024\n"], False, id="limit of the container"),
        pytest.param(True, ["max\n"], False, id="user namespace"),
    ],
)
def test_missing_limit_names_the_remedy(own_count: bool, cgroup_limits: list[str], is_missing: bool) -> None:
    assert ("podPidsLimit" in describe_missing_limit(own_count, cgroup_limits)) is is_missing


def test_executor_logs_a_missing_limit(
    start_namespace: Callable[..., _Namespace], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    LocalWorkspace(tmp_path).stop()
    expected = describe_missing_limit(has_own_task_count(), read_cgroup_limits())
    assert capfd.readouterr().err == (f"executor: {expected}\n" if expected else "")
    start_namespace()
    assert capfd.readouterr().err == ""


@pytest.mark.process
@pytest.mark.parametrize(("most", "inherited", "wanted"), [(40, None, 40), (40, 30, 30), (30, 40, 30)])
def test_kernel_refuses_the_next_process(most: int, inherited: int | None, wanted: int) -> None:
    with shared_folder() as folder:
        program = install(str(folder))
        words = [] if inherited is None else ["/usr/bin/env", "prlimit", f"--nproc={inherited}:{inherited}"]
        counted = subprocess.run(
            [*namespace_prefix(), *words, system_python(), "-S", "-c", COUNT, str(most)],
            cwd=folder,
            env={"PYTHONPATH": program, "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            timeout=ceiling(),
            check=True,
        )
    assert json.loads(counted.stdout) == [wanted - 1, "Resource temporarily unavailable"]


@pytest.mark.process
def test_initial_namespace_has_no_limit() -> None:
    if Path("/proc/self/uid_map").read_text().split() != ["0", "0", "4294967295"]:
        pytest.skip("this machine is itself in a user namespace")
    words = "import resource\nfrom fleetwright_workspace.executor.task_limit import limit_tasks\nlimit_tasks(7)\n"
    words += "print(resource.getrlimit(resource.RLIMIT_NPROC))"
    with shared_folder() as folder:
        limit = subprocess.run(
            [system_python(), "-S", "-c", words],
            env={"PYTHONPATH": install(str(folder))},
            capture_output=True,
            text=True,
            timeout=ceiling(),
            check=True,
        )
    assert limit.stdout.strip() == str(resource.getrlimit(resource.RLIMIT_NPROC))


@pytest.mark.parametrize("bomb", [pytest.param(PROCESS_BOMB, id="processes"), pytest.param(THREAD_BOMB, id="threads")])
def test_bomb_meets_the_limit_and_is_ended(start_namespace: Callable[..., _Namespace], bomb: str) -> None:
    workspace = start_namespace()
    lines = workspace.run([system_python(), "-c", bomb], seconds=60)
    assert end_of(lines)["stopped"] == "processes"
    # The bomb of processes may be ended by its number before the kernel refuses one.
    counted = output_of(lines).split()
    assert bomb == PROCESS_BOMB or counted[0] == "refused"
    assert all(int(number) <= MOST_TASKS for number in counted if number != "refused")
    wait_until(lambda: _tasks_of(workspace) <= 2, "only the supervisor and the server are left")
    assert output_of(workspace.run("echo alive")) == "alive\n"


def test_failed_command_has_the_reason(start_namespace: Callable[..., _Namespace]) -> None:
    workspace = start_namespace()
    text = "echo 'bash: fork: retry: Resource temporarily unavailable' >&2"
    assert f"They may have {MOST_TASKS}" in output_of(workspace.run(f"{text}; exit 254"), "stderr")
    assert f"They may have {MOST_TASKS}" in output_of(workspace.run(f"({text}) 2>&1; exit 1"), "stderr")
    assert "They may have" not in output_of(workspace.run(text), "stderr")
    assert "They may have" not in output_of(workspace.run("exit 254"), "stderr")


def test_kernel_ends_a_command_before_the_executor(start_namespace: Callable[..., _Namespace]) -> None:
    """An executor that is not root writes the value when the command runs already."""
    command = "until grep -q 1000 /proc/$$/oom_score_adj; do sleep 0.05; done; cat /proc/self/oom_score_adj"
    workspace = start_namespace()
    assert output_of(workspace.run(command)) == "1000\n"
    assert Path(f"/proc/{workspace.executor.pid}/oom_score_adj").read_text() != "1000\n"


@pytest.mark.parametrize(
    ("inherited", "wanted"),
    [
        pytest.param(3, "true: not started, because the kernel refuses", id="no place for the command"),
        pytest.param(2, "the command was not started, because the kernel refuses", id="no place for its keeper"),
    ],
)
def test_refused_start_has_the_reason(start_namespace: Callable[..., _Namespace], inherited: int, wanted: str) -> None:
    workspace = start_namespace(inherited)
    lines = workspace.run(["true"])
    assert output_of(lines, "stderr").startswith(wanted)
    assert (end_of(lines)["exit"], end_of(lines)["stopped"]) == (126, "")
    assert workspace.http.get("/v1/info").json()["executor"] is True


def _tasks_of(workspace: LocalWorkspace) -> int:
    """Return the number of processes of the executor with all of its descendants."""
    found, level = 0, [str(workspace.executor.pid)]
    while level:
        found += len(level)
        level = [child for pid in level for child in _children(pid)]
    return found


def _children(pid: str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
