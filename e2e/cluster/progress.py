"""Prints one line for each step, with the seconds since the start."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

CANNOT_RUN = 77
"""The exit status of a command that this machine cannot run. The rings of tests distinguish it from a failure."""


class ClusterError(Exception):
    """A problem that a person must fix. The message describes the problem, and is printed without a traceback."""


class CannotRun(ClusterError):  # noqa: N818 - reads as the state of the machine
    """This machine cannot run the command, regardless of the configuration."""


def _to_stderr(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


@dataclass(frozen=True)
class Progress:
    write: Callable[[str], None] = _to_stderr
    clock: Callable[[], float] = time.monotonic
    started: float = field(default=-1.0)

    def __post_init__(self) -> None:
        if self.started < 0:
            object.__setattr__(self, "started", self.clock())

    def say(self, line: str) -> None:
        self.write(f"{self.clock() - self.started:7.1f}s  {line}")


SILENT = Progress(write=lambda _line: None)
