"""Ends the remaining processes of a run once the parent of this program has ended, for whatever reason.

    python -I -S reaper.py NAME=VALUE

The standard input of the reaper is a pipe that only the parent holds, so the kernel closes it even after SIGKILL. The
reaper then kills every process whose environment has NAME=VALUE. It also removes the folders that the parent has
written to the pipe, one in a line. A line that begins with `keep ` removes a folder from the list. The reaper uses only
the standard library, and starts in 20 ms.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

ENOUGH_SECONDS = 20.0
_PAUSE_SECONDS = 0.05
_QUIET_LOOKS = 3
"""One scan of the processes may miss a process that is being created."""


def main() -> None:
    # Ctrl-C and a time limit signal the whole process group of the run. The reaper ignores these signals.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    marker = sys.argv[1].encode()
    folders: dict[str, None] = {}
    for line in sys.stdin:
        verb, _, folder = line.rstrip("\n").partition(" ")
        if verb == "remove":
            folders[folder] = None
        elif verb == "keep":
            folders.pop(folder, None)
    _kill_all(marker)
    for folder in map(Path, folders):
        _remove(folder)


def _kill_all(marker: bytes) -> None:
    """Kill until no process is left, because some of these processes start others again."""
    deadline, quiet = time.monotonic() + ENOUGH_SECONDS, 0
    while quiet < _QUIET_LOOKS and time.monotonic() < deadline:
        found = _marked(marker)
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        quiet = 0 if found else quiet + 1
        time.sleep(_PAUSE_SECONDS)


def _remove(folder: Path) -> None:
    """Remove a folder in which the reaper of an inner run may still be at work."""
    deadline = time.monotonic() + ENOUGH_SECONDS
    while folder.exists() and time.monotonic() < deadline:
        shutil.rmtree(folder, ignore_errors=True)
        time.sleep(_PAUSE_SECONDS)


def _marked(marker: bytes) -> list[int]:
    found = []
    for folder in Path("/proc").iterdir():
        try:
            environment = (folder / "environ").read_bytes() if folder.name.isdecimal() else b""
        except OSError:  # The process has ended, or belongs to another user.
            continue
        if marker in environment.split(b"\0"):
            found.append(int(folder.name))
    return found


if __name__ == "__main__":
    main()
