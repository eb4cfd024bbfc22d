"""The temporary folder of a benchmark, a sweep or a test session. All processes of the run end with the run.

Every process that a run starts inherits an environment variable by which a reaper finds it, and puts its temporary
files into the run's folder. The reaper is a separate process, so it also works after SIGKILL. A signal to the run's
direct children would not be enough, because their own child processes would stay.
"""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from e2e.cluster import reaper

MARKER = "E2E_RUN"
"""OperatorProcess passes an operator no variable whose name begins with the product's name."""


@contextmanager
def run_folder(prefix: str, *, describe_work: Callable[[Path], str] = lambda _folder: "") -> Iterator[Path]:
    """Provide a temporary folder for a program whose `main` this is, until the block ends or a signal ends the run.

    A signal ends the program immediately, because an orderly shutdown would wait for processes that the signal did not
    reach. `describe_work` returns lines about the work of the run that is not done, which are printed then.
    """
    folder = Path(tempfile.gettempdir()) / f"{prefix}{secrets.token_hex(4)}"

    def end(number: int, _frame: FrameType | None) -> None:
        """End this process by the same signal, as the sender expects. The reaper then cleans up."""
        line = f"interrupted by {signal.Signals(number).name}: everything that this run started ends with it\n"
        # A handler may run in the middle of a `print`, which does not allow a second one.
        os.write(2, (describe_work(folder) + line).encode())
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    handlers = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        with _reaped(folder, keep=False):
            folder.mkdir(mode=0o700)
            with _temporary_files_in(folder):
                yield folder
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


@contextmanager
def reaped_session(folder: Path) -> Iterator[None]:
    """End all processes of a test session when it ends, and remove its folder only if a signal ended it.

    pytest keeps the folders of its last sessions, so that a developer can look into a failure.
    """
    with _reaped(folder, keep=True), _temporary_files_in(folder):
        yield


@contextmanager
def _reaped(folder: Path, *, keep: bool) -> Iterator[None]:
    value, before = secrets.token_hex(8), os.environ.get(MARKER)
    environment = {key: text for key, text in os.environ.items() if key != MARKER}
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", reaper.__file__, f"{MARKER}={value}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        # An outer run's reaper must not end this one before it has done its work.
        env=environment,
        cwd="/",
        start_new_session=True,
        text=True,
    )
    assert process.stdin is not None, "it was asked for"
    try:
        with process.stdin as pipe:
            pipe.write(f"remove {folder}\n")
            pipe.flush()
            os.environ[MARKER] = value
            yield
            if keep:
                pipe.write(f"keep {folder}\n")
    finally:
        _set(MARKER, before)
        process.wait()


@contextmanager
def _temporary_files_in(folder: Path) -> Iterator[None]:
    """Have this process and those that it starts make their temporary files there."""
    before = os.environ.get("TMPDIR"), tempfile.tempdir
    os.environ["TMPDIR"] = tempfile.tempdir = str(folder)
    try:
        yield
    finally:
        tempfile.tempdir = before[1]
        _set("TMPDIR", before[0])


def _set(variable: str, value: str | None) -> None:
    if value is None:
        os.environ.pop(variable, None)
    else:
        os.environ[variable] = value
