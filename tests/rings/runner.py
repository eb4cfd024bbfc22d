"""Runs one ring: shows its output, ends it at its ceiling, and repeats failed tests once.

A ceiling ends a hang. It is a multiple of the ring's quiet duration and of the machine's factor.
"""

import asyncio
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from tests.rings.catalogue import CANNOT_RUN, Ring
from tests.rings.outcomes import VARIABLE, Outcomes, read_outcomes
from tests.support.machine import machine_factor

RING_MARGIN = 5.0
"""The ceiling of a ring is this many times its quiet duration, multiplied by the factor of the machine."""
MOST_UNSTABLE = 10
"""A run with more unstable tests is red."""
UNSTABLE_SHARE = 0.01
"""If a larger share of a ring fails, more than one test, none is repeated and the ring is red."""
END_SECONDS = 60.0
"""The time in which an interrupted ring ends the processes that it has started."""
_LONGEST_LINE = 2**26
_SHOWN_LINES = 60
_PROGRESS_SECONDS = 30
_PYTEST_FAILED = 1


@dataclass(frozen=True)
class Unstable:
    """A test that failed, and passed when it was repeated."""

    test: str
    failure: str
    repetition: str
    """The last lines of the repetition."""


@dataclass(frozen=True)
class Result:
    ring: Ring
    status: int
    seconds: float
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    reason: str = ""
    """The reason why the ring could not run or was ended."""
    unstable: tuple[Unstable, ...] = ()

    @property
    def is_green(self) -> bool:
        return self.status == 0

    @property
    def could_not_run(self) -> bool:
        return self.status == CANNOT_RUN


@dataclass
class _Ended:
    status: int
    lines: list[str] = field(default_factory=list)
    reached_ceiling: bool = False

    @property
    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "")


def allowed_unstable(tests: int) -> int:
    """Return how many tests of a ring with that many tests may be unstable."""
    return min(MOST_UNSTABLE, max(1, int(tests * UNSTABLE_SHARE)))


async def run_ring(ring: Ring, *, beside: bool, folder: Path) -> Result:
    """Run a ring, and repeat its failures. Print its output at its end if `beside` says that others run beside it.

    `folder` gets a file with the outcome of each test. A cancellation ends the ring and still prints its output.
    """
    started = time.monotonic()
    recorded = folder / f"{ring.name}.jsonl"
    recorded.unlink(missing_ok=True)
    ended = await _execute(ring, ring.command, beside=beside, recorded=recorded)
    if ended.reached_ceiling:
        return _result_at_ceiling(ring, read_outcomes(recorded), time.monotonic() - started)
    if ring.is_pytest:
        result = await _repeat_tests(ring, ended, read_outcomes(recorded), folder)
    else:
        result = await _repeat_command(ring, ended, beside=beside, recorded=recorded)
    return replace(result, seconds=time.monotonic() - started)


def _result_at_ceiling(ring: Ring, outcomes: Outcomes, seconds: float) -> Result:
    still_open = sorted(outcomes.open) or ["none reported"]
    return Result(
        ring,
        status=1,
        seconds=seconds,
        passed=len(outcomes.passed),
        failed=len(outcomes.failed) + len(outcomes.open) or 1,
        skipped=len(outcomes.skipped),
        reason="ended at its ceiling; unfinished tests: " + ", ".join(still_open),
    )


async def _repeat_command(ring: Ring, ended: _Ended, *, beside: bool, recorded: Path) -> Result:
    """Return the result of a ring that is one command. A command that fails is repeated once."""
    if ended.status == CANNOT_RUN:
        return Result(ring, CANNOT_RUN, 0.0, reason=ended.last_line)
    unstable: tuple[Unstable, ...] = ()
    if ended.status and ring.repeats:
        again = await _execute(ring, ring.command, beside=beside, recorded=recorded)
        if again.status == 0:
            unstable = (Unstable(ring.name, _tail(ended.lines), _tail(again.lines)),)
        ended = again
    return Result(
        ring, ended.status, 0.0, passed=int(not ended.status), failed=int(bool(ended.status)), unstable=unstable
    )


async def _repeat_tests(ring: Ring, ended: _Ended, outcomes: Outcomes, folder: Path) -> Result:
    """Return the result of a ring of pytest. Failed tests are repeated in one process, one after the other."""
    counted = Result(ring, ended.status, 0.0, passed=len(outcomes.passed), skipped=len(outcomes.skipped))
    if ended.status == 0:
        return counted
    if ended.status == CANNOT_RUN:
        return replace(counted, reason=ended.last_line)
    if ended.status != _PYTEST_FAILED or outcomes.uncollected or not outcomes.failed:
        return replace(counted, failed=len(outcomes.failed) or 1, reason=f"pytest ended with {ended.status}")
    allowed = allowed_unstable(len(outcomes.passed) + len(outcomes.failed))
    if len(outcomes.failed) > allowed:
        reason = f"{len(outcomes.failed)} tests failed, and at most {allowed} are repeated"
        return replace(counted, failed=len(outcomes.failed), reason=reason)
    return await _repeat_each(counted, outcomes, folder)


async def _repeat_each(counted: Result, outcomes: Outcomes, folder: Path) -> Result:
    ring = counted.ring
    recorded = folder / f"{ring.name}-repeated.jsonl"
    recorded.unlink(missing_ok=True)
    command = (sys.executable, "-m", "pytest", "-q", *outcomes.failed)
    print(f"\n=== {ring.name}: repeats {len(outcomes.failed)} failed tests", flush=True)
    again = await _execute(ring, command, beside=True, recorded=recorded)
    repeated = read_outcomes(recorded)
    passed = [test for test in outcomes.failed if test in repeated.passed]
    faults = [test for test in outcomes.failed if test not in repeated.passed]
    return replace(
        counted,
        status=int(bool(faults)),
        passed=counted.passed + len(passed),
        failed=len(faults),
        unstable=tuple(Unstable(test, outcomes.failed[test], _tail(again.lines)) for test in passed),
    )


async def _execute(ring: Ring, command: Sequence[str], *, beside: bool, recorded: Path) -> _Ended:
    title = f"\n=== {ring.name}: {' '.join(command)}"
    print(f"\n=== {ring.name} starts" if beside else title, flush=True)
    words = (*command[:4], "-p", "tests.rings.outcomes", *command[4:]) if ring.is_pytest else command
    process = await asyncio.create_subprocess_exec(
        *words,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_environment(recorded),
        limit=_LONGEST_LINE,
        start_new_session=True,
    )
    ended = _Ended(status=1)
    progress = asyncio.create_task(_print_progress(ring, recorded)) if beside and ring.is_pytest else None
    try:
        async with asyncio.timeout(ring.quiet_seconds * RING_MARGIN * machine_factor()):
            await _read_lines(process, ended, shown=not beside)
            ended.status = await process.wait()
    except TimeoutError:
        ended.reached_ceiling = True
    finally:
        if progress:
            progress.cancel()
        await _end(process, ended)
        if beside:
            print(f"{title}\n{''.join(ended.lines)}", flush=True)
    return ended


def _environment(recorded: Path) -> dict[str, str]:
    """Return the environment of the rings, in which pytest keeps the test modules that it has compiled."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return environment | {VARIABLE: str(recorded)}


async def _print_progress(ring: Ring, recorded: Path) -> None:
    """Print how many tests have ended, because the output of a ring that runs beside others appears at its end."""
    for seconds in count(_PROGRESS_SECONDS, _PROGRESS_SECONDS):
        await asyncio.sleep(_PROGRESS_SECONDS)
        outcomes = read_outcomes(recorded)
        print(
            f"  {ring.name} after {seconds} s: {len(outcomes.passed)} passed, {len(outcomes.failed)} failed", flush=True
        )


async def _read_lines(process: asyncio.subprocess.Process, ended: _Ended, *, shown: bool) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        ended.lines.append(line.decode(errors="replace"))
        if shown:
            print(ended.lines[-1], end="", flush=True)


async def _end(process: asyncio.subprocess.Process, ended: _Ended) -> None:
    """End a ring that still runs. It may end its own processes first, and is then killed with all of them."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            async with asyncio.timeout(END_SECONDS * machine_factor()):
                await _read_lines(process, ended, shown=False)
                await process.wait()
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


def _tail(lines: Sequence[str]) -> str:
    return "".join(lines[-_SHOWN_LINES:])
