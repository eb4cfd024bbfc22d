"""Starts the executor: `python3 executor.pyz --socket PATH --root FOLDER --home FOLDER`.

This process only supervises. It starts the server again if a command ends or stops it, and kills every process that
escaped from its command. As process 1 of a container it cannot be killed from inside.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from fleetwright_workspace.executor.command_process import CommandLimits, CommandSettings
from fleetwright_workspace.executor.command_server import CommandServer
from fleetwright_workspace.executor.memory import default_memory
from fleetwright_workspace.executor.process_tree import (
    become_subreaper,
    children_of,
    descendants,
    forbid_tracing,
    kill_tree,
    signal_all,
)
from fleetwright_workspace.executor.task_limit import (
    DEFAULT_PROCESSES,
    describe_missing_limit,
    has_own_task_count,
    read_cgroup_limits,
)
from fleetwright_workspace.options import parse_options

_POLL_SECONDS = 0.2
_RESTART_SECONDS = 0.2


def main() -> None:
    options = parse_options(
        sys.argv[1:],
        ("socket", "root", "home"),
        {"memory": "", "processes": str(DEFAULT_PROCESSES)},
        repeated=("keep",),
    )
    root, home = options["root"][0], options["home"][0]
    if not os.path.isdir(root):
        sys.exit(f"--root: {root} is not a folder")
    os.makedirs(home, exist_ok=True)
    memory, processes = options["memory"][0] or str(default_memory()), options["processes"][0]
    if not (memory.isdigit() and processes.isdigit()):
        sys.exit("--memory and --processes: give whole numbers")
    if missing := describe_missing_limit(has_own_task_count(), read_cgroup_limits()):
        sys.stderr.write(f"executor: {missing}\n")
    limits = CommandLimits(int(memory), int(processes))
    supervise(CommandServer(options["socket"][0], CommandSettings(root, home, tuple(options["keep"]), limits)))


def supervise(server: CommandServer) -> None:
    """Keep one server running until SIGTERM."""
    forbid_tracing()
    become_subreaper()
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)
    while True:
        try:
            pid = os.fork()
        except OSError:
            # The kernel refuses a process: others of the pod have too many.
            time.sleep(_RESTART_SECONDS)
            continue
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            try:
                server.serve()
            finally:
                os._exit(0)
        _watch(pid)
        kill_tree(os.getpid(), _reap)
        time.sleep(_RESTART_SECONDS)


def _watch(server: int) -> None:
    """Return when the server has ended or is stopped. Kill processes whose keeper was killed meanwhile."""
    while True:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG | os.WUNTRACED)
            except ChildProcessError:
                return
            if pid == server:
                return
            if pid == 0:
                break
        strays = [child for child in children_of(os.getpid()) if child != server]
        if strays:
            signal_all([found for stray in strays for found in [stray, *descendants(stray)]], signal.SIGKILL)
        time.sleep(_POLL_SECONDS)


def _reap() -> None:
    while True:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _end(*_: object) -> None:
    kill_tree(os.getpid(), _reap)
    os._exit(0)


if __name__ == "__main__":
    main()
