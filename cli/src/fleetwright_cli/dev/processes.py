"""Local processes with a log file each: started, checked for readiness, and stopped in reverse order.

The methods may be called from several threads, one at a time for each name. A thread that starts a process must live as
long as the process, because the kernel ends the process together with this thread.

This module stops only processes that it started. A child has its own process group and is killed when this process
exits. So an interrupt in the terminal reaches this process first, and no process is left behind.
"""

import ctypes
import os
import random
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType

_END_SECONDS = 45.0
_PORTS = range(20000, 32000)
_PR_SET_PDEATHSIG = 1
_PROVIDER = "OPENAI_"
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Opens addresses of this machine, which no proxy of the environment can reach."""


class ProcessFailed(RuntimeError):  # noqa: N818 - reads as what happened
    """A process exited or did not become ready; the message contains the end of its log."""


def free_port() -> int:
    """Return a free port below the ephemeral port range. An outgoing connection could take an ephemeral port first.

    Raises:
        OSError: No port is free.
    """
    for port in random.sample(_PORTS, len(_PORTS)):
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"no port between {_PORTS.start} and {_PORTS.stop - 1} is free")


class Processes:
    """A stack of named processes. Starting a name again replaces its process."""

    def __init__(self, logs: Path, *, environ: Mapping[str, str] | None = None, folder: Path | None = None) -> None:
        """Args:
        logs: The folder of the log files.
        environ: The variables that processes inherit; by default those of this process.
        folder: The current folder of processes; by default that of this process.
        """
        self._logs = logs
        self._environ = environ
        self._folder = folder
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def __enter__(self) -> "Processes":
        self._logs.mkdir(parents=True, exist_ok=True)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for process in reversed(self._running.values()):
            process.terminate()
        for name in reversed(list(self._running)):
            self._reap(name)

    def log(self, name: str) -> Path:
        return self._logs / f"{name}.log"

    def start(
        self,
        name: str,
        command: Sequence[str],
        environ: Mapping[str, str] | None = None,
        *,
        folder: Path | None = None,
    ) -> None:
        """Start a process without the provider's settings in its environment.

        Agents read the key from their own folder; other programs must not see it.

        Args: `environ` are further variables. `folder` is the current folder, if it is not that of all processes.

        Raises:
            ProcessFailed: The program cannot be started.
        """
        self.end(name)
        with self.log(name).open("ab") as log:
            try:
                self._running[name] = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env={**self._inherited(), **(environ or {})},
                    cwd=folder or self._folder,
                    start_new_session=True,
                    preexec_fn=_die_with_parent if sys.platform == "linux" else None,
                )
            except OSError as error:
                raise ProcessFailed(f"{name}: {command[0]} cannot be started: {error.strerror}") from None

    def run(self, command: Sequence[str], *, seconds: float) -> "subprocess.CompletedProcess[str]":
        """Run a program to its end, and return its output.

        Raises:
            subprocess.TimeoutExpired: It did not end in time, and was killed.
        """
        return subprocess.run(
            command,
            env=self._inherited(),
            cwd=self._folder,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def _inherited(self) -> dict[str, str]:
        inherited = os.environ if self._environ is None else self._environ
        return {key: value for key, value in inherited.items() if not key.startswith(_PROVIDER)}

    def end(self, name: str) -> None:
        if name in self._running:
            self._running[name].terminate()
            self._reap(name)
            del self._running[name]

    def _reap(self, name: str) -> None:
        process = self._running[name]
        try:
            process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def ended(self) -> list[str]:
        """Return the names of processes that exited without being stopped."""
        return [name for name, process in list(self._running.items()) if process.poll() is not None]

    def wait_ready(self, name: str, url: str, *, seconds: float = 30.0) -> None:
        """Wait until the address responds, even with a client error.

        Raises:
            ProcessFailed: The process exited, or the time ran out.
        """
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._running[name].poll() is not None:
                raise ProcessFailed(f"{name} ended with {self._running[name].returncode}:\n{self._tail(name)}")
            try:
                with LOOPBACK.open(url, timeout=2) as answer:
                    if answer.status == 200:
                        return
            except urllib.error.HTTPError as error:
                with error:  # the error holds the connection
                    if error.code < 500:
                        return
            except OSError:
                pass
            time.sleep(0.05)
        raise ProcessFailed(f"{name} was not ready within {seconds:.0f} s:\n{self._tail(name)}")

    def _tail(self, name: str) -> str:
        return "\n".join(self.log(name).read_text(errors="replace").splitlines()[-15:])


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
