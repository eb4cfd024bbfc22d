"""The end of a run, for any reason, ends all processes of the run and removes its folder."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from e2e.cluster.processes import start_time
from e2e.cluster.run_folder import MARKER, reaped_session, run_folder
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

pytestmark = pytest.mark.process

PROGRAM = """
import subprocess, sys, tempfile, time
from pathlib import Path
from e2e.cluster.run_folder import reaped_session, run_folder

kept = Path(sys.argv[2])
with run_folder("run-") if sys.argv[1] == "run" else reaped_session(kept):
    Path(tempfile.mkdtemp(), "file").touch()
    # A session of its own, and a process that another has started: no signal to a group would reach them.
    grandchild = "import subprocess; subprocess.run(['sleep', '300'])"
    child = subprocess.Popen([sys.executable, "-c", grandchild], start_new_session=True)
    print(child.pid, flush=True)
    time.sleep(300)
"""


@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL, signal.SIGHUP])
def test_run_folder_signal_ends_descendants_and_removes_it(tmp_path: Path, how: signal.Signals):
    """A signal to the program ends its descendants and removes the folder."""
    program = _start("run", tmp_path)
    assert list(tmp_path.iterdir()) != []
    program.send_signal(how)
    assert program.wait(ceiling()) == -how
    wait_until(lambda: not _descendants(tmp_path), "the descendants end", shown=lambda: _descendants(tmp_path))
    wait_until(lambda: list(tmp_path.iterdir()) == [], "the folder goes", shown=lambda: list(tmp_path.iterdir()))


DESCRIBED = """
import time
from e2e.cluster.run_folder import run_folder

with run_folder("run-", describe_work=lambda folder: (folder / "open").read_text()) as folder:
    (folder / "open").write_text("  open: case 7\\n")
    print("begun", flush=True)
    time.sleep(300)
"""


def test_run_folder_prints_the_open_work_at_a_signal():
    command = [sys.executable, "-c", DESCRIBED]
    with subprocess.Popen(
        command, cwd=Path(__file__).parents[2], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "begun\n"
        program.send_signal(signal.SIGINT)
        _, printed = program.communicate(timeout=ceiling())
    assert printed == ("  open: case 7\ninterrupted by SIGINT: everything that this run started ends with it\n")


def test_reaped_session_removes_its_folder_when_killed(tmp_path: Path):
    kept = tmp_path / "kept"
    kept.mkdir()
    program = _start("session", tmp_path)
    program.kill()
    program.wait()
    wait_until(lambda: not kept.exists(), "the folder goes")
    wait_until(lambda: not _descendants(tmp_path), "the descendants end", shown=lambda: _descendants(tmp_path))


def test_reaped_session_keeps_its_folder_on_normal_exit(tmp_path: Path):
    with reaped_session(tmp_path):
        child = subprocess.Popen(["sleep", "300"])
    assert child.wait(ceiling()) == -signal.SIGKILL
    assert tmp_path.exists()


def test_run_folder_restores_the_environment_on_normal_exit(tmp_path: Path):
    """A run that ends normally removes its folder and restores the environment."""
    before = dict(os.environ), tempfile.gettempdir(), signal.getsignal(signal.SIGTERM)
    with run_folder("run-") as folder:
        assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(folder)
    assert not folder.exists()
    assert (dict(os.environ), tempfile.gettempdir(), signal.getsignal(signal.SIGTERM)) == before


def test_run_folder_leaves_other_processes_running():
    other = subprocess.Popen(["sleep", "300"], env={**os.environ, MARKER: "another"})
    try:
        with run_folder("run-"):
            pass
        assert other.poll() is None
    finally:
        other.kill()
        other.wait()


def _start(kind: str, folder: Path) -> subprocess.Popen[str]:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, kind, str(folder / "kept")],
        env={**os.environ, "TMPDIR": str(folder)},
        cwd=Path(__file__).parents[2],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert program.stdout is not None
    with program.stdout as printed:
        child = int(printed.readline())
    assert start_time(child)
    return program


def _descendants(folder: Path) -> list[int]:
    found = []
    for process in Path("/proc").iterdir():
        try:
            environment = (process / "environ").read_text(errors="replace")
        except OSError:
            continue
        if f"TMPDIR={folder}" in environment:
            found.append(int(process.name))
    return found
