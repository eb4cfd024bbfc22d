"""Modules that run as programs in forks of one process, which has imported the packages of this project already.

`python -m MODULE` spends up to a second of processor time on imports, and a fork a twentieth of it. Such a program has
a process, an environment, a working directory and standard streams of its own, as under `python -m`. Tests of the start
itself run the real command.

This module uses the fork server of multiprocessing. Agents have another one, `tests.support.agent.fork_server`, for two
reasons. Commands need pipes and pseudo-terminals, and multiprocessing passes descriptors to its forks; an agent writes
to files. The server of multiprocessing also has one list of imports, `tests.support.command_imports`. With it, an agent
would find packages that its image lacks.
"""

import io
import multiprocessing
import os
import runpy
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from fcntl import ioctl
from multiprocessing import reduction
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from termios import TIOCSCTTY
from typing import IO, Any

from tests.support.machine import ceiling
from tests.support.waiting import NotInTimeError

IMPORTS = "tests.support.command_imports"


class Descriptor:
    """A file descriptor of this process as an argument of a new process, which receives a duplicate."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __reduce__(self) -> tuple[Any, ...]:
        return _receive_descriptor, (reduction.DupFd(self.number),)


def _receive_descriptor(descriptor: Any) -> Descriptor:
    return Descriptor(descriptor.detach())


class ForkedProgram:
    """A running module, with the part of `subprocess.Popen` that tests use."""

    def __init__(self, process: ForkServerProcess, name: str) -> None:
        self._process = process
        self._name = name

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit status, the negative number of the signal that ended the process, or None while it runs."""
        return self._process.exitcode

    def poll(self) -> int | None:
        return self.returncode

    def wait(self) -> int:
        """Wait for the end of the program and return its exit status.

        Raises:
            NotInTimeError: if the program does not end before the ceiling. It is killed.
        """
        self._process.join(ceiling())
        if self.returncode is None:
            self.kill()
            self._process.join()
            raise NotInTimeError(f"not within {ceiling():.0f} s: {self._name} ends")
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.returncode is None:
            # The fork server reaps a process a moment before it reports the exit status.
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _fork_server() -> ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([IMPORTS])
    return context


def start_module(
    module: str,
    *words: str,
    environment: Mapping[str, str],
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    folder: Path | None = None,
    has_terminal: bool = False,
) -> ForkedProgram:
    """Start a module as `python -m MODULE WORDS` does.

    The standard streams are descriptors; without one, a stream is `/dev/null`, except standard error, which is that of
    the tests. `has_terminal` makes standard input the controlling terminal of the program.
    """
    opened = os.open(os.devnull, os.O_RDWR)
    try:
        streams = [
            Descriptor(opened if stdin is None else stdin),
            Descriptor(opened if stdout is None else stdout),
            Descriptor(2 if stderr is None else stderr),
        ]
        arguments = (module, words, dict(environment), str(folder or Path.cwd()), streams, has_terminal)
        process = _fork_server().Process(target=_run_module, args=arguments, daemon=True)
        process.start()
    finally:
        os.close(opened)
    return ForkedProgram(process, " ".join([module, *words]))


def run_module(
    module: str,
    *words: str,
    environment: Mapping[str, str],
    text: str = "",
    stdin: int | None = None,
    folder: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run a module to its end, as `subprocess.run` does for `python -m MODULE WORDS`, and return what it wrote.

    `text` is its standard input, unless `stdin` is a descriptor.

    Raises:
        NotInTimeError: if the program does not end before the ceiling.
    """
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(text.encode())
        given.seek(0)
        program = start_module(
            module,
            *words,
            environment=environment,
            stdin=given.fileno() if stdin is None else stdin,
            stdout=out.fileno(),
            stderr=err.fileno(),
            folder=folder,
        )
        try:
            status = program.wait()
        except NotInTimeError as error:
            raise NotInTimeError(f"{error}; it wrote: {_read_text(out)}{_read_text(err)}") from None
        return subprocess.CompletedProcess([module, *words], status, _read_text(out), _read_text(err))


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _run_module(
    module: str,
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: str,
    streams: Sequence[Descriptor],
    has_terminal: bool,
) -> None:
    """Make this process the one that `python -m` would start, and run the module."""
    if has_terminal:
        os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream.number, number)
        os.close(stream.number)
    if has_terminal:
        ioctl(0, TIOCSCTTY, 0)
    sys.stdin = io.TextIOWrapper(io.FileIO(0, "r", closefd=False), encoding="utf-8")
    sys.stdout = _open_output(1)
    sys.stderr = _open_output(2)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    sys.argv = [module, *words]
    # The preloading process has imported the main module too, which runs anew here.
    sys.modules.pop(f"{module}.__main__", None)
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _open_output(number: int) -> io.TextIOWrapper:
    file = open(number, "wb", closefd=False)  # noqa: SIM115 - the stream stays open until the process ends
    return io.TextIOWrapper(file, encoding="utf-8", errors="backslashreplace", line_buffering=os.isatty(number))
