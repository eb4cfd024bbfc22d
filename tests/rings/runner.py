"""Runs one ring: shows its output, ends it at its ceiling, and repeats failed tests once, each alone.

A ceiling ends a hang. It is that of the ring, multiplied by the factor of the machine.
"""

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from e2e.cluster.progress import CANNOT_RUN
from tests.rings.catalogue import PYTEST, Ring
from tests.rings.outcomes import VARIABLE, Outcomes, read_outcomes
from tests.support.machine import machine_factor

MOST_UNSTABLE = 10
"""A run with more unstable tests is red."""
UNSTABLE_SHARE = 0.01
"""If a larger share of a ring fails, more than one test, none is repeated and the ring is red."""
END_SECONDS = 60.0
"""The time in which an interrupted ring ends the processes that it has started."""
NICENESS = 10
"""The niceness of a ring that yields."""
_PRIORITY_ATTEMPTS = 20
_PRIORITY_SECONDS = 0.15
_POLL_SECONDS = 0.05
_DRAIN_SECONDS = 5.0
"""The time in which the output of a process that has ended must end too."""
_LONGEST_LINE = 2**26
_SHOWN_LINES = 60
_PROGRESS_SECONDS = 30
_PYTEST_FAILED = 1
_DIRECT = "localhost,127.0.0.1,::1,127.0.0.0/8,10.0.0.0/8,.svc,.cluster.local"
"""Loopback addresses, and those of the local cluster."""
_LEFT_OUT = (
    *("OPENAI_", "LANGSMITH_", "LANGCHAIN_"),  # would choose a real model, or report to a service
    *("PYTEST_ADDOPTS", "PYTEST_PLUGINS", "PYTEST_DISABLE_PLUGIN_AUTOLOAD"),
    *("PYTHONPATH", "PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONDONTWRITEBYTECODE"),
)
"""The beginnings of variables that would choose other tests, other code, or other settings of the interpreter."""
_KEPT_OF_GIT = ("GIT_SSL_", "GIT_CONFIG", "GIT_EXEC_PATH")
"""The other variables of git name a repository, which a hook sets. The git of a test would write to that repository."""
_OPTIONS_OF_MAKE = ("TEAM", "KEEP")
_GIT_SETTINGS = {"GIT_CONFIG_COUNT": "2", "GIT_CONFIG_VALUE_0": "false", "GIT_CONFIG_VALUE_1": "false"} | {
    "GIT_CONFIG_KEY_0": "commit.gpgSign",
    "GIT_CONFIG_KEY_1": "tag.gpgSign",
}
"""Commits of tests cannot be signed."""


@dataclass(frozen=True)
class UnstableTest:
    """A test that failed, and passed when it was repeated alone."""

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
    skipped: Mapping[str, str] = field(default_factory=dict)
    """The reason of each test that could not run."""
    reason: str = ""
    """The reason why the ring could not run or was ended."""
    repeatable: Mapping[str, str] = field(default_factory=dict)
    """The failures that are to be repeated, by test. A ring that is one command has its own name here."""
    unstable: tuple[UnstableTest, ...] = ()

    @property
    def is_green(self) -> bool:
        return self.status == 0

    @property
    def could_not_run(self) -> bool:
        return self.status == CANNOT_RUN


@dataclass
class _Command:
    """A command of a ring, and what it has printed."""

    words: Sequence[str]
    outcome_file: Path
    status: int = 1
    lines: list[str] = field(default_factory=list)
    reached_ceiling: bool = False

    @property
    def last_line(self) -> str:
        return next((line.strip() for line in reversed(self.lines) if line.strip()), "")

    @property
    def tail(self) -> str:
        return "".join(self.lines[-_SHOWN_LINES:])


def count_allowed_failures(tests: int) -> int:
    """Return how many tests of a ring with that many tests may be unstable."""
    return min(MOST_UNSTABLE, max(1, int(tests * UNSTABLE_SHARE)))


async def run_ring(ring: Ring, *, is_concurrent: bool, folder: Path) -> Result:
    """Run a ring once. Print its output at its end if others run at the same time.

    `folder` gets a file with the outcome of each test. A cancellation ends the ring and still prints its output.
    """
    started = time.monotonic()
    command = _Command(ring.command, folder / f"{ring.name}.jsonl")
    await _run_command(ring, command, is_concurrent=is_concurrent)
    if command.reached_ceiling:
        result = _judge_ceiling(ring, read_outcomes(command.outcome_file))
    elif ring.is_pytest:
        result = _judge_tests(ring, command, read_outcomes(command.outcome_file))
    else:
        result = _judge_command(ring, command)
    return replace(result, seconds=time.monotonic() - started)


async def repeat_failures(result: Result, folder: Path) -> Result:
    """Repeat each failure that may have another cause than the code, alone. A test that passes then is unstable."""
    started = time.monotonic()
    for number, (test, failure) in enumerate(result.repeatable.items()):
        ring = result.ring
        print(f"\n=== {ring.name}: repeats {test}", flush=True)
        # The repetition tries the same examples of a property.
        profile = [word for word in ring.command if word.startswith("--hypothesis-profile=")]
        words = (*PYTEST, *profile, test) if ring.is_pytest else ring.command
        command = _Command(words, folder / f"{ring.name}-{number}.jsonl")
        await _run_command(ring, command, is_concurrent=False)
        passed = command.status == 0 and not command.reached_ceiling
        if passed and ring.is_pytest:
            passed = test in read_outcomes(command.outcome_file).passed
        if passed:
            found = UnstableTest(test, failure, command.tail)
            result = replace(
                result, passed=result.passed + 1, failed=result.failed - 1, unstable=(*result.unstable, found)
            )
        elif command.reached_ceiling:
            result = replace(result, reason=f"the repetition of {test} was ended at its ceiling")
    if result.repeatable and not result.failed:
        result = replace(result, status=0)
    return replace(result, repeatable={}, seconds=result.seconds + time.monotonic() - started)


def _judge_ceiling(ring: Ring, outcomes: Outcomes) -> Result:
    open_tests = f"unfinished tests: {', '.join(sorted(outcomes.open)) or 'none reported'}"
    return Result(
        ring,
        status=1,
        seconds=0.0,
        passed=len(outcomes.passed),
        failed=len(outcomes.failed) + len(outcomes.open) or 1,
        skipped=outcomes.skipped,
        reason=f"ended at its ceiling; {open_tests if ring.is_pytest else 'see the output above'}",
    )


def _judge_command(ring: Ring, command: _Command) -> Result:
    if command.status == CANNOT_RUN:
        return Result(ring, CANNOT_RUN, 0.0, reason=command.last_line)
    if command.status == 0:
        return Result(ring, 0, 0.0, passed=1)
    repeatable = {ring.name: command.tail} if ring.repeats else {}
    return Result(ring, command.status, 0.0, failed=1, repeatable=repeatable)


def _judge_tests(ring: Ring, command: _Command, outcomes: Outcomes) -> Result:
    counted = Result(ring, command.status, 0.0, passed=len(outcomes.passed), skipped=outcomes.skipped)
    if command.status == CANNOT_RUN:
        return replace(counted, reason=command.last_line)
    if outcomes.unreported:
        # pytest-xdist may lose the rest of a file when a worker crashes, and still count no failure.
        return replace(
            counted,
            status=command.status or _PYTEST_FAILED,
            failed=len(outcomes.failed) or 1,
            reason=f"{outcomes.unreported} tests have no outcome, as after the crash of a worker; the output is above",
        )
    if command.status == 0:
        return counted
    if command.status != _PYTEST_FAILED or outcomes.uncollected or not outcomes.failed:
        return replace(
            counted,
            failed=len(outcomes.failed) or 1,
            reason=f"pytest exited with status {command.status}; its output is above",
        )
    counted = replace(counted, failed=len(outcomes.failed))
    allowed = count_allowed_failures(len(outcomes.passed) + len(outcomes.failed))
    if counted.failed > allowed:
        return replace(counted, reason=f"{counted.failed} tests failed, and at most {allowed} are repeated")
    # The teardown of a session belongs to no test, so repeating the last one would hide its failure.
    return replace(
        counted, repeatable={test: text for test, text in outcomes.failed.items() if test not in outcomes.failed_at_end}
    )


async def _run_command(ring: Ring, command: _Command, *, is_concurrent: bool) -> None:
    title = f"\n=== {ring.name}: {' '.join(command.words)}"
    print(f"\n=== {ring.name} starts" if is_concurrent else title, flush=True)
    words = command.words
    if ring.is_pytest:
        words = (*PYTEST, "-p", "tests.rings.outcomes", *words[len(PYTEST) :])
    if ring.yields:
        words = ("nice", f"-n{NICENESS}", *words)
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=_build_environment(command.outcome_file),
        limit=_LONGEST_LINE,
        start_new_session=True,
    )
    reading = asyncio.create_task(_read_lines(process, command, shown=not is_concurrent))
    progress = asyncio.create_task(_print_progress(ring, command.outcome_file)) if is_concurrent else None
    try:
        async with asyncio.timeout(ring.ceiling_seconds * machine_factor()):
            if ring.yields:
                await _lower_session_priority(process.pid)
            command.status = await _wait_for_exit(process)
    except TimeoutError:
        command.reached_ceiling = True
    finally:
        if progress:
            progress.cancel()
        await _end_process(process)
        await _end_output(process, reading)
        if is_concurrent:
            print(f"{title}\n{''.join(command.lines)}", flush=True)


def _write_niceness(leader: int) -> None:
    Path(f"/proc/{leader}/autogroup").write_text(str(NICENESS))


async def _lower_session_priority(leader: int) -> None:
    """Lower the share of a session in the processors.

    Linux may divide them among sessions first (sched(7), "The autogroup feature"), and niceness then only orders the
    processes of one session. Without privileges, the kernel allows one change in a tenth of a second.
    """
    for _ in range(_PRIORITY_ATTEMPTS):
        try:
            _write_niceness(leader)
        except BlockingIOError:
            await asyncio.sleep(_PRIORITY_SECONDS)
        except OSError:
            return  # The kernel has no such groups.
        else:
            return


def _build_environment(outcome_file: Path) -> dict[str, str]:
    """Return the environment of the rings, without what would change their results."""
    environment = {name: value for name, value in os.environ.items() if not _changes_results(name)}
    # A proxy of the environment cannot reach the servers of tests.
    direct = ",".join(filter(None, (environment.get("NO_PROXY") or environment.get("no_proxy"), _DIRECT)))
    return environment | _GIT_SETTINGS | {VARIABLE: str(outcome_file), "NO_PROXY": direct, "no_proxy": direct}


def _changes_results(variable: str) -> bool:
    is_of_git = variable.startswith("GIT_") and not variable.startswith(_KEPT_OF_GIT)
    return is_of_git or variable in _OPTIONS_OF_MAKE or variable.startswith(_LEFT_OUT)


async def _print_progress(ring: Ring, outcome_file: Path) -> None:
    """Print how many tests have ended, because the output of a ring that runs beside others appears at its end."""
    for seconds in count(_PROGRESS_SECONDS, _PROGRESS_SECONDS):
        await asyncio.sleep(_PROGRESS_SECONDS)
        counts = ""
        if ring.is_pytest:
            outcomes = read_outcomes(outcome_file)
            counts = f": {len(outcomes.passed)} passed, {len(outcomes.failed)} failed"
        print(f"  {ring.name} after {seconds} s{counts or ': still running'}", flush=True)


async def _read_lines(process: asyncio.subprocess.Process, command: _Command, *, shown: bool) -> None:
    assert process.stdout is not None
    async for line in process.stdout:
        command.lines.append(line.decode(errors="replace"))
        if shown:
            print(command.lines[-1], end="", flush=True)


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """End a ring that still runs. It may end its own processes first, and is then killed with all of them."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGINT)
        try:
            async with asyncio.timeout(END_SECONDS * machine_factor()):
                await _wait_for_exit(process)
        except TimeoutError:
            os.killpg(process.pid, signal.SIGKILL)
            await _wait_for_exit(process)


async def _wait_for_exit(process: asyncio.subprocess.Process) -> int:
    """Return the exit status. `process.wait` would also wait for the end of the output, which others may hold open."""
    while process.returncode is None:  # noqa: ASYNC110 - asyncio has no other event for the exit
        await asyncio.sleep(_POLL_SECONDS)
    return process.returncode


async def _end_output(process: asyncio.subprocess.Process, reading: asyncio.Task[None]) -> None:
    """Wait for the end of the output. Kill the processes of the group that hold it open after the ring has ended."""
    drain_seconds = _DRAIN_SECONDS * machine_factor()
    await asyncio.wait({reading}, timeout=drain_seconds)
    if not reading.done():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        await asyncio.wait({reading}, timeout=drain_seconds)
        reading.cancel()
    await asyncio.gather(reading, return_exceptions=True)
