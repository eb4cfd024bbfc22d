"""One line per step with the seconds since the start. Refuses to know what the steps are."""

import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field


class ClusterError(Exception):
    """Something a person must change; the message says what, and it is printed without a traceback."""


class CannotRun(ClusterError):  # noqa: N818 - reads as the state of the machine
    """This machine cannot do it at all, whatever is tried."""


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
