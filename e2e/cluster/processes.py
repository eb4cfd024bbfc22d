"""Long-running programs of one state folder: started in the background, recorded, stopped newest first.

Every process is recorded by pid and start time. A pid that the kernel has since given to another process is therefore
never signalled. This module restarts no process by itself.
"""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from e2e.cluster.progress import ClusterError

GRACE_SECONDS = 1.0  # their remaining output is discarded


def start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None if it is dead or a zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])


@dataclass(frozen=True)
class Process:
    name: str
    pid: int
    started: int
    command: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        return start_time(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        if self.alive:
            os.kill(self.pid, number)


_OUTLIVING: list[subprocess.Popen[bytes]] = []
"""Keeps the Popen objects, because processes outlive this program, and a collected Popen would print a warning."""


class Processes:
    def __init__(self, folder: Path) -> None:
        self._record = folder / "processes.jsonl"
        self._logs = folder / "logs"
        self._children: list[subprocess.Popen[bytes]] = []

    def start(
        self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None
    ) -> Process:
        self._logs.mkdir(parents=True, exist_ok=True)
        with self.log(name).open("ab") as log:
            child = subprocess.Popen(
                [str(word) for word in command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                # Each of these programs talks to the others only, on addresses that no proxy can reach.
                env={**os.environ, "NO_PROXY": "*", "no_proxy": "*", **(environment or {})},
                cwd=self._logs,
                start_new_session=True,
            )
        self._children.append(child)
        _OUTLIVING.append(child)
        process = Process(name, child.pid, start_time(child.pid) or 0, tuple(map(str, command)))
        with self._record.open("a") as record:
            record.write(json.dumps(asdict(process)) + "\n")
        return process

    def ensure(
        self, name: str, command: Sequence[str | Path], *, environment: Mapping[str, str] | None = None
    ) -> Process:
        """Return the running process of that name. Start a new one if there is none or if its command differs."""
        for process in self.recorded():
            if process.name == name and process.alive:
                if process.command == tuple(map(str, command)):
                    return process
                terminate(process)
        return self.start(name, command, environment=environment)

    def recorded(self) -> list[Process]:
        if not self._record.exists():
            return []
        lines = [json.loads(line) for line in self._record.read_text().splitlines()]
        return [Process(**{**line, "command": tuple(line["command"])}) for line in lines]

    def alive(self) -> set[str]:
        self._reap()
        return {process.name for process in self.recorded() if process.alive}

    def check(self, *names: str) -> None:
        """Raise an error with the end of the log if one of these processes has ended."""
        for name in names:
            if name not in self.alive():
                raise ClusterError(f"{name} ended; the end of {self.log(name)}:\n{self._tail(name)}")

    def stop(self) -> None:
        for process in reversed(self.recorded()):
            terminate(process)
            self._reap()
        self._record.unlink(missing_ok=True)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def _tail(self, name: str) -> str:
        if not self.log(name).exists():
            return "(nothing was written)"
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-12:])

    def _reap(self) -> None:
        for child in self._children:
            child.poll()


def terminate(process: Process) -> None:
    process.signal(signal.SIGTERM)
    deadline = time.monotonic() + GRACE_SECONDS
    while process.alive and time.monotonic() < deadline:
        time.sleep(0.02)
    process.signal(signal.SIGKILL)
    while process.alive:
        time.sleep(0.02)
