"""`fleetwright` as a process or as a fork: one command, and a run of `fleetwright dev` with its log."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TextIO

from tests.support.forked_commands import ForkedProgram, run_module, start_module
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

MODULE = "fleetwright_cli"
INSTALLED = Path(sys.executable).parent / "fleetwright"


class RunningProcess(Protocol):
    """The part of `subprocess.Popen` and `ForkedProgram` that a run of a fleet uses."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def send_signal(self, sig: int, /) -> None: ...


def run_fleetwright(
    *words: str,
    environment: Mapping[str, str],
    text: str = "",
    stdin: int | None = None,
    folder: Path | None = None,
) -> "subprocess.CompletedProcess[str]":
    """Run `fleetwright` with these words to its end. `text` is its standard input."""
    return run_module(MODULE, *words, environment=environment, text=text, stdin=stdin, folder=folder)


@contextmanager
def start_fleetwright(*words: str, environment: Mapping[str, str]) -> Iterator[tuple[ForkedProgram, TextIO]]:
    """Start `fleetwright` with these words, and yield it with its standard output. Kill it if it runs at the end."""
    reader, writer = os.pipe()
    with open(reader, encoding="utf-8") as output:  # noqa: PTH123 - a descriptor
        try:
            program = start_module(MODULE, *words, environment=environment, stdout=writer)
        finally:
            os.close(writer)
        try:
            yield program, output
        finally:
            program.kill()
            program.wait()


def assert_running(process: RunningProcess) -> None:
    assert process.poll() is None, "the process ended"


@dataclass
class DevRun:
    """A run of `fleetwright dev`."""

    folder: Path
    state: Path
    log: Path
    process: RunningProcess
    environment: Mapping[str, str]

    def output(self) -> str:
        return self.log.read_text()

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait for a condition while the fleet runs."""

        def assert_dev_runs() -> None:
            assert self.process.poll() is None, f"dev ended before this: {what}; it wrote {self.output()}"

        wait_until(condition, what, shown=self.output, alive=assert_dev_runs)

    def wait_for_output(self, text: str, *, times: int = 1) -> None:
        self.wait_until(lambda: self.output().count(text) >= times, f"dev writes {text!r} {times} times")

    def say(self, agent: str, text: str, *options: str) -> "subprocess.CompletedProcess[str]":
        words = ("say", "--state", str(self.state), *options, agent, text)
        return run_fleetwright(*words, environment=self.environment)


@contextmanager
def run_dev(
    folder: Path,
    *options: str,
    state: Path,
    log: Path,
    environment: Mapping[str, str],
    as_command: bool = False,
    program: Path | None = None,
    current: Path | None = None,
) -> Iterator[DevRun]:
    """Run `fleetwright dev` on a folder until the end of the block, where it must end without a fault.

    The run is a fork. With `as_command` or a `program` it starts as the user's does. `current` is its current folder.
    """
    words = ["dev", "-f", str(folder), "--state", str(state), *options]
    with log.open("w") as output:
        process: subprocess.Popen[bytes] | ForkedProgram
        if as_command or program is not None:
            command = [str(program or INSTALLED), *words]
            variables = dict(environment)
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=variables, cwd=current)
        else:
            descriptor = output.fileno()
            process = start_module(
                MODULE, *words, environment=environment, stdout=descriptor, stderr=descriptor, folder=current
            )
    run = DevRun(folder, state, log, process, environment)
    try:
        run.wait_for_output("The fleet keeps running")
        yield run
    finally:
        # A background process of a shell ignores interrupts.
        process.send_signal(signal.SIGTERM)
        status = process.wait(ceiling()) if isinstance(process, subprocess.Popen) else process.wait()
    assert status == 0, run.output()
