"""Runs the rings of tests one after the other and ends with one summary of what ran and what could not.

A ring is a command. One that cannot run here ends with 77 and its reason as the last line. The summary
shows the reason; CI fails. `python tests/rings.py NAME …` runs the named rings only.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from types import FrameType

CANNOT_RUN = 77
_PYTEST = (sys.executable, "-m", "pytest", "-q")
_WITHOUT_CLUSTER = tuple(
    f"tests/{folder}"
    for folder in (
        "libs",
        "operator",
        "agent_image",
        "gateway",
        "cli",
        "workspace",
        "contract",
        "charts",
        "e2e_cluster",
    )
)
_COMMANDS = ("tests/workspace", "tests/cli/workspace", "tests/agent_image/tools/workspace")
_COUNTS = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")


@dataclass(frozen=True)
class Ring:
    name: str
    command: Sequence[str]


def _others(*folders: str) -> tuple[str, ...]:
    """Return the arguments that select every folder without a cluster, except these."""
    # pytest collects a folder that is an argument, even if it is also ignored.
    named = (folder for folder in _WITHOUT_CLUSTER if folder not in folders)
    return *named, *(f"--ignore={folder}" for folder in folders if folder not in _WITHOUT_CLUSTER)


RINGS = (
    # This ring is first because the others need the programs. Its first run builds Kubernetes.
    Ring("programs", (sys.executable, "-m", "e2e.cluster", "binaries")),
    Ring("static", ("make", "--no-print-directory", "lint", "types", "layers")),
    Ring("unit", (*_PYTEST, "-n", "2", "--dist", "loadfile", "-m", "not process", *_WITHOUT_CLUSTER)),
    # More than half of the time is spent waiting for processes and clocks, so two processors suffice for four workers.
    Ring("process", (*_PYTEST, "-n", "4", "--dist", "loadfile", "-m", "process", *_others(*_COMMANDS))),
    # These tests run commands that use whole processors and much memory, so nothing else runs beside them.
    Ring("commands", (*_PYTEST, "-n", "2", "--dist", "loadfile", "-m", "process", *_COMMANDS)),
    Ring("demo", ("make", "--no-print-directory", "demo")),
    Ring("team", ("make", "--no-print-directory", "demo", "TEAM=1")),
    # Each worker has a control plane and an operator of its own.
    Ring("controlplane", (*_PYTEST, "-n", "2", "--dist", "loadfile", "tests/controlplane")),
    # Fixed samples. `make sweep` and `make walk` run everything.
    Ring("sweep", (sys.executable, "-m", "e2e.faults", "--share", os.environ.get("SHARE") or "0.25")),
    Ring("walk", (sys.executable, "-m", "e2e.walk", "--every", "10", "--walks", "4", "--seed", "4")),
    # Most of these tests wait. Each worker has its own control plane.
    Ring("faults", (*_PYTEST, "-n", "2", "--dist", "worksteal", "tests/faults")),
    # These tests wait for pods and share one cluster. One worker runs a whole module.
    Ring("cluster", (*_PYTEST, "-n", "3", "--dist", "loadfile", "--no-loadscope-reorder", "e2e/scenarios")),
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


def run(ring: Ring) -> Result:
    """Run a ring with its output shown as it comes. A signal to this program ends the ring first."""
    print(f"\n=== {ring.name}: {' '.join(ring.command)}", flush=True)
    started = time.monotonic()
    process = subprocess.Popen(ring.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    lines: list[str] = []
    assert process.stdout is not None
    try:
        for line in process.stdout:
            print(line, end="", flush=True)
            lines = [*lines[-30:], line.strip()]
        status = process.wait()
    finally:
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


def main(names: Sequence[str]) -> int:
    wanted = [ring for ring in RINGS if not names or ring.name in names]
    results = [run(ring) for ring in wanted]
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
    print(f"{sum(result.passed for result in results)} passed, {failed} failed")
    return 1 if failed else 0


def _end(number: int, _frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, _end)
    sys.exit(main(sys.argv[1:]))
