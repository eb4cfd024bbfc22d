"""A run that a signal ends at any time leaves no process and no temporary folder."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

ROOT = Path(__file__).parents[2]
SWEEP = ("-m", "e2e.faults", "--share", "0.01")
WALK = ("-m", "e2e.walk", "--every", "50", "--walks", "1")
BENCH = ("-m", "tests.bench.operator_bench", "--parts", "alone")
SESSION = ("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/controlplane/test_rights.py")

RUNS = [
    pytest.param(SWEEP, "etcd", signal.SIGTERM, id="SIGTERM, a sweep whose etcd starts"),
    pytest.param(SWEEP, "fleetwright_operator", signal.SIGINT, id="SIGINT, a sweep with an operator"),
    pytest.param(WALK, "kube-apiserver", signal.SIGKILL, id="SIGKILL, a walk whose API server starts"),
    pytest.param(BENCH, "kube-controller-manager", signal.SIGTERM, id="SIGTERM, a bench with controllers"),
    pytest.param(SESSION, "kube-controller-manager", signal.SIGKILL, id="SIGKILL, a test session with controllers"),
]


@pytest.mark.parametrize(("words", "moment", "number"), RUNS)
def test_interrupted_run_leaves_no_process_or_folder(tmp_path, words, moment, number):
    folder = tmp_path / "temporary"
    folder.mkdir()
    with (tmp_path / "output").open("wb") as output:
        run = subprocess.Popen(
            [sys.executable, *words],
            cwd=ROOT,
            env={**os.environ, "TMPDIR": str(folder)},
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    try:
        wait_until(
            lambda: moment in _programs_below(folder),
            f"{moment} runs",
            shown=lambda: _programs_below(folder),
            alive=lambda: _assert_running(run),
        )
        run.send_signal(number)
        assert run.wait(ceiling()) == -number
        began = time.monotonic()
        wait_until(lambda: not _programs_below(folder), "no process is left", shown=lambda: _programs_below(folder))
        wait_until(lambda: not _left(folder), "no folder is left", shown=lambda: _left(folder))
        print(f"nothing was left {time.monotonic() - began:.2f} s after {signal.Signals(number).name}")
    finally:
        run.kill()
        run.wait()


def _assert_running(run):
    assert run.poll() is None, "the run ended by itself"


def _left(folder: Path) -> list[Path]:
    """Files below the folder. pytest keeps one folder for each user, which holds those of the sessions."""
    return [path for path in folder.rglob("*") if not path.is_dir() and not path.is_symlink()]


def _programs_below(folder: Path) -> str:
    """Return the command lines of the processes that have the folder in their environment or their arguments."""
    return "\n".join(words for words, about in _processes() if str(folder) in about)


def _processes() -> Iterator[tuple[str, str]]:
    for process in Path("/proc").iterdir():
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            about = words + (process / "environ").read_bytes().decode(errors="replace")
        except OSError:
            continue
        if process.name.isdecimal() and int(process.name) != os.getpid():
            yield words, about
