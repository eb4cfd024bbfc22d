"""Runs the rings of tests and ends with one summary of what ran and what could not.

A ring is a command. A command that cannot run on this machine ends with status 77, and its last line is the reason. The
summary shows the reason, and CI fails. Rings that mostly wait run in two lanes side by side; all others run alone.
`python tests/rings.py NAME …` runs the named rings only.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

CANNOT_RUN = 77
_PYTEST = (sys.executable, "-m", "pytest", "-q")
_WITHOUT_CLUSTER = tuple(
    f"tests/{folder}"
    for folder in ("libs", "operator", "agent_image", "gateway", "cli", "contract", "charts", "e2e_cluster")
)
_LONGEST_LINE = 1 << 24
"""Bytes of one line of output; a failing test may print a long value."""
_COUNTS = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")


@dataclass(frozen=True)
class Ring:
    name: str
    command: Sequence[str]


Lane = tuple[Ring, ...]
"""Rings that run one after the other."""
Stage = tuple[Lane, ...]
"""Lanes that run side by side."""

STAGES: tuple[Stage, ...] = (
    (
        (
            # This ring is first because the others need the programs. Its first run builds Kubernetes.
            Ring("programs", (sys.executable, "-m", "e2e.cluster", "binaries")),
            Ring("static", ("make", "--no-print-directory", "lint", "types", "layers")),
            Ring("unit", (*_PYTEST, "-n", "2", "--dist", "loadfile", "-m", "not process", *_WITHOUT_CLUSTER)),
            # More than half of the time is spent waiting for processes and clocks, so two processors suffice for four
            # workers.
            Ring("process", (*_PYTEST, "-n", "4", "--dist", "loadfile", "-m", "process", *_WITHOUT_CLUSTER)),
            Ring("demo", ("make", "--no-print-directory", "demo")),
            # Fixed samples. `make sweep` and `make walk` run everything.
            Ring("sweep", (sys.executable, "-m", "e2e.faults", "--share", os.environ.get("SHARE") or "0.25")),
            Ring("walk", (sys.executable, "-m", "e2e.walk", "--every", "10", "--walks", "4", "--seed", "4")),
        ),
    ),
    # These tests wait for pods, rollouts and lasting faults most of the time, and leave a processor idle.
    (
        (
            # The scenarios share one cluster. One worker runs a whole module.
            Ring("cluster", (*_PYTEST, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "e2e/scenarios")),
        ),
        (
            # Each worker has its own control plane and operator.
            Ring("faults", (*_PYTEST, "-n", "2", "--dist", "worksteal", "tests/faults")),
            Ring("controlplane", (*_PYTEST, "-n", "2", "--dist", "loadfile", "tests/controlplane")),
        ),
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Result:
    ring: Ring
    status: int
    seconds: float
    passed: int
    failed: int
    skipped: int
    last_line: str

    @property
    def word(self) -> str:
        if self.status == 0:
            return "passed"
        return "could not run" if self.status == CANNOT_RUN else "FAILED"


async def _run_lane(lane: Lane, *, alone: bool) -> list[Result]:
    return [await run(ring, prefix="" if alone else f"{ring.name} │ ") for ring in lane]


async def _run_stage(stage: Stage) -> list[Result]:
    async with asyncio.TaskGroup() as group:
        lanes = [group.create_task(_run_lane(lane, alone=len(stage) == 1)) for lane in stage]
    return [result for lane in lanes for result in lane.result()]


async def run(ring: Ring, *, prefix: str = "") -> Result:
    """Run a ring, and print its output as it arrives. If this task is cancelled, the ring's process is terminated.

    Args:
        ring: The ring.
        prefix: Printed before each line, so that the lines of rings that run side by side can be told apart.
    """
    print(f"\n=== {ring.name}: {' '.join(ring.command)}", flush=True)
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *ring.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, limit=_LONGEST_LINE
    )
    lines: list[str] = []
    assert process.stdout is not None
    try:
        async for data in process.stdout:
            line = data.decode(errors="replace")
            print(f"{prefix}{line}", end="", flush=True)
            lines = [*lines[-30:], line.strip()]
        status = await process.wait()
    finally:
        with suppress(ProcessLookupError):
            process.terminate()  # This has no effect on an ended process.
    counted = next((line for line in reversed(lines) if _COUNTS.search(line) and " in " in line), "")
    found = {kind.rstrip("s"): int(number) for number, kind in _COUNTS.findall(counted)}
    failed = found.get("failed", 0) + found.get("error", 0)
    return Result(
        ring,
        status,
        time.monotonic() - started,
        passed=found.get("passed", 0) or int(status == 0),
        failed=failed or int(status not in {0, CANNOT_RUN}),
        skipped=found.get("skipped", 0),
        last_line=lines[-1] if lines else "",
    )


def _leave_cluster(*, in_ci: bool) -> None:
    """Remove the cluster in CI. Elsewhere the next run reuses it."""
    if in_ci:
        subprocess.run([sys.executable, "-m", "e2e.cluster", "down"], check=False)
    else:
        print("\nthe cluster stays for the next run; make down takes it away")


def _wanted(names: Sequence[str]) -> list[Stage]:
    stages = [
        tuple(lane for rings in stage if (lane := tuple(ring for ring in rings if not names or ring.name in names)))
        for stage in STAGES
    ]
    return [stage for stage in stages if stage]


async def _run_all(stages: Sequence[Stage]) -> list[Result]:
    task = asyncio.current_task()
    assert task is not None
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    return [result for stage in stages for result in await _run_stage(stage)]


def main(names: Sequence[str]) -> int:
    started = time.monotonic()
    try:
        results = asyncio.run(_run_all(_wanted(names)))
    except asyncio.CancelledError:
        return 130
    in_ci = os.environ.get("CI", "") not in {"", "0", "false"}
    if any(result.ring.name == "cluster" for result in results):
        _leave_cluster(in_ci=in_ci)
    print("\n=== summary")
    for result in results:
        skipped = f", {result.skipped} could not run (their reasons stand above)" if result.skipped else ""
        reason = f": {result.last_line}" if result.status == CANNOT_RUN else f", {result.passed} passed{skipped}"
        print(f"  {result.ring.name:<13} {result.word} in {result.seconds:.0f} s{reason}")
    missing = sum(result.skipped + (result.status == CANNOT_RUN) for result in results)
    failed = sum(result.failed for result in results) + (missing if in_ci else 0)
    minutes = (time.monotonic() - started) / 60
    print(f"{sum(result.passed for result in results)} passed, {failed} failed, in {minutes:.0f} minutes")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
