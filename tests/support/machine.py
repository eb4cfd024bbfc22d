"""The speed of this machine, as a factor by which every ceiling of a test is multiplied.

A ceiling ends a hang. It never judges speed, so it must not depend on the machine that the tests run on. The first
process of a run measures the machine once and hands the factor to its children in an environment variable.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

VARIABLE = "FLEETWRIGHT_MACHINE_FACTOR"
REFERENCE_SECONDS = 0.15
"""The duration of `_work` on two quiet cores of the machine on which the budgets of the rings were measured."""
LONGEST_SECONDS = 180.0
"""No ceiling is longer, before it is multiplied by the factor."""
_REPORT_SECONDS = 20.0
"""The time in which a wait that reached its ceiling reports what it waited for."""
MARGIN = 10.0
"""A ceiling is this many times longer than the promised duration."""


def _work() -> None:
    """Start processes, write files to disk and compute, as the tests do."""
    with tempfile.TemporaryDirectory(prefix="fleetwright-machine-") as folder:
        for number in range(4):
            subprocess.run([sys.executable, "-I", "-S", "-c", "sum(range(200_000))"], check=True)
            path = Path(folder) / str(number)
            with path.open("wb") as file:
                file.write(bytes(262_144))
                os.fsync(file.fileno())
        sum(number * number for number in range(1_000_000))


def measure_factor() -> float:
    """Return how many times slower than the reference this machine is now, at least 1. It takes half a second.

    The median of three measurements counts, because a disk may stall during one of them.
    """
    measured = []
    for _ in range(3):
        started = time.monotonic()
        _work()
        measured.append(time.monotonic() - started)
    return max(1.0, round(statistics.median(measured) / REFERENCE_SECONDS, 2))


def machine_factor() -> float:
    """Return the factor that the first process of this run measured. Measure it if this is the first process."""
    if VARIABLE not in os.environ:
        os.environ[VARIABLE] = str(measure_factor())
    try:
        factor = float(os.environ[VARIABLE])
    except ValueError:
        factor = 0.0
    if not factor >= 1.0:
        sys.exit(
            f"{VARIABLE} is {os.environ[VARIABLE]!r}: use a number of at least 1, or unset it to measure the machine"
        )
    return factor


def is_in_ci() -> bool:
    """Return whether a test that this machine cannot run counts as failed."""
    return os.environ.get("CI", "") not in {"", "0", "false"}


def ceiling(promised_seconds: float = LONGEST_SECONDS / MARGIN) -> float:
    """Return the seconds after which a wait for something that should take `promised_seconds` has failed."""
    return min(promised_seconds * MARGIN, LONGEST_SECONDS) * machine_factor()


def outer_ceiling() -> float:
    """Return the seconds after which a test or program ends whose waits have the longest ceiling.

    It ends some time after this ceiling, so that it fails with the message of its wait.
    """
    return ceiling() + _REPORT_SECONDS * machine_factor()
