"""Background processes are recorded, reused, and stopped newest first. Foreign processes are left alone."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from e2e.cluster.processes import Processes, start_time
from e2e.cluster.progress import ClusterError

SLEEP = ["sleep", "60"]


@pytest.fixture
def processes(tmp_path: Path) -> Iterator[Processes]:
    made = Processes(tmp_path)
    yield made
    made.stop()


@pytest.mark.process
def test_processes_ensure_reuses_a_running_process(processes: Processes, tmp_path: Path) -> None:
    first = processes.ensure("one", SLEEP)
    assert Processes(tmp_path).ensure("one", SLEEP) == first


@pytest.mark.process
def test_processes_ensure_replaces_a_process_of_another_command(processes: Processes) -> None:
    first = processes.ensure("one", SLEEP)
    second = processes.ensure("one", ["sleep", "61"])
    assert second.pid != first.pid
    assert not first.alive


@pytest.mark.process
def test_processes_ensure_restarts_a_killed_process(processes: Processes) -> None:
    first = processes.ensure("one", SLEEP)
    first.signal(signal.SIGKILL)
    while first.alive:
        pass
    assert processes.ensure("one", SLEEP).pid != first.pid
    assert processes.alive() == {"one"}


@pytest.mark.process
def test_processes_stop_ends_and_removes_all_processes(processes: Processes) -> None:
    started = [processes.start(name, SLEEP) for name in ("one", "two")]
    processes.stop()
    assert not any(process.alive for process in started)
    assert processes.recorded() == []


@pytest.mark.process
def test_processes_stop_ends_the_newest_process_first(processes: Processes, tmp_path: Path) -> None:
    log = tmp_path / "order"
    script = f'trap "echo $0 >>{log}; exit" TERM; echo ready; while :; do sleep 0.01; done'
    for name in ("older", "newer"):
        processes.start(name, ["sh", "-c", script, name])
        while "ready" not in processes.log(name).read_text():
            pass
    processes.stop()
    assert log.read_text().split() == ["newer", "older"]


@pytest.mark.process
def test_processes_stop_kills_a_process_that_ignores_sigterm(processes: Processes) -> None:
    deaf = processes.start("deaf", ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 0.01; done"])
    while "ready" not in processes.log("deaf").read_text():
        pass
    processes.stop()
    assert not deaf.alive


@pytest.mark.process
def test_processes_stop_ignores_a_reused_pid(tmp_path: Path) -> None:
    stranger = subprocess.Popen(SLEEP)
    try:
        started = start_time(stranger.pid)
        assert started is not None
        record = {"name": "old", "pid": stranger.pid, "started": started - 1, "command": SLEEP}
        (tmp_path / "processes.jsonl").write_text(json.dumps(record) + "\n")
        Processes(tmp_path).stop()
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.process
def test_processes_check_quotes_the_log_of_an_ended_process(processes: Processes) -> None:
    child = processes.start("one", ["sh", "-c", "echo the disk is full; exit 1"])
    while child.alive:
        pass
    with pytest.raises(ClusterError, match=r"one ended.*\n.*the disk is full"):
        processes.check("one")


def test_start_time_is_none_for_a_missing_process() -> None:
    assert start_time(os.getpid())
    assert start_time(2**22 + 1) is None
