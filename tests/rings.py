"""Runs the rings of tests and ends with one summary of what ran and what could not.

A ring is a command. One that cannot run here ends with 77 and its reason as the last line. The summary
shows the reason; CI fails. `python tests/rings.py NAME …` runs the named rings only.

Most rings run one after the other. Consecutive rings that wait for much of their time run at the same time.
"""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

CANNOT_RUN = 77
_LONGEST_LINE = 2**26
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
_IN_ORDER = ("--no-loadscope-reorder",)
"""Files start in the order of collection, in which long files are first. Otherwise files with few tests start last."""
_COUNTS = re.compile(r"(\d+) (passed|failed|error|errors|skipped)\b")


@dataclass(frozen=True)
class Ring:
    name: str
    command: Sequence[str]
    waits: bool = False
    """True if the ring waits for much of its time, so that it can run beside another such ring."""


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
    # These tests run commands that use whole processors and much memory, so nothing else runs beside them.
    Ring("commands", (*_PYTEST, "-n", "2", "--dist", "loadfile", "-m", "process", *_COMMANDS)),
    Ring("demo", ("make", "--no-print-directory", "demo")),
    Ring("team", ("make", "--no-print-directory", "demo", "TEAM=1")),
    # Fixed samples. `make sweep` and `make walk` run everything.
    Ring("sweep", (sys.executable, "-m", "e2e.faults", "--share", os.environ.get("SHARE") or "0.25")),
    Ring("walk", (sys.executable, "-m", "e2e.walk", "--every", "10", "--walks", "4", "--seed", "4")),
    # Both rings wait for more than half of their time, so two processors suffice for them.
    Ring(
        "process",
        (*_PYTEST, "-n", "4", "--dist", "loadfile", *_IN_ORDER, "-m", "process", *_others(*_COMMANDS)),
        waits=True,
    ),
    # These tests wait for pods and share one cluster. One worker runs a whole module.
    Ring("cluster", (*_PYTEST, "-n", "3", "--dist", "loadfile", *_IN_ORDER, "e2e/scenarios"), waits=True),
    # Each worker of these rings has control planes and operators of its own, which need whole processors. Beside them,
    # the scenarios of the cluster would miss their deadlines on a slow machine.
    Ring("faults", (*_PYTEST, "-n", "2", "--dist", "worksteal", "tests/faults")),
    Ring("controlplane", (*_PYTEST, "-n", "2", "--dist", "loadfile", "tests/controlplane")),
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


async def run(ring: Ring, *, beside: bool) -> Result:
    """Run a ring. Print its output line by line, or after its end if `beside` says that other rings run beside it.

    A cancellation ends the ring and still prints its output.
    """
    title = f"\n=== {ring.name}: {' '.join(ring.command)}"
    print(f"\n=== {ring.name} starts" if beside else title, flush=True)
    started = time.monotonic()
    process = await asyncio.create_subprocess_exec(
        *ring.command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=_environment(), limit=_LONGEST_LINE
    )
    lines: list[str] = []
    assert process.stdout is not None
    try:
        async for read in process.stdout:
            lines.append(read.decode(errors="replace"))
            if not beside:
                print(lines[-1], end="", flush=True)
        status = await process.wait()
    finally:
        if process.returncode is None:
            process.terminate()
            rest, _ = await process.communicate()
            lines.append(rest.decode(errors="replace"))
        if beside:
            print(f"{title}\n{''.join(lines)}", flush=True)
    return _result(ring, status, time.monotonic() - started, [line.strip() for line in lines[-30:]])


def _environment() -> dict[str, str]:
    """Return the environment of the rings, in which pytest keeps the test modules that it has compiled."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _result(ring: Ring, status: int, seconds: float, lines: Sequence[str]) -> Result:
    counted = next((line for line in reversed(lines) if _COUNTS.search(line) and " in " in line), "")
    found = {kind.rstrip("s"): int(number) for number, kind in _COUNTS.findall(counted)}
    failed = found.get("failed", 0) + found.get("error", 0)
    return Result(
        ring,
        status,
        seconds,
        passed=found.get("passed", 0) or int(status == 0),
        failed=failed or int(status not in {0, CANNOT_RUN}),
        skipped=found.get("skipped", 0),
        last_line=lines[-1] if lines else "",
    )


async def _run_all(wanted: Sequence[Ring]) -> list[Result]:
    """Run the rings in order. Consecutive rings that wait for much of their time run together."""
    results: list[Result] = []
    for waiting, rings in groupby(wanted, key=lambda ring: ring.waits):
        together = list(rings)
        if waiting:
            results += await asyncio.gather(*(run(ring, beside=len(together) > 1) for ring in together))
        else:
            results += [await run(ring, beside=False) for ring in together]
    return results


async def _until_signal(wanted: Sequence[Ring]) -> list[Result]:
    """Run the rings. A signal to this program ends them first.

    Raises:
        SystemExit: if a signal arrived.
    """
    running = asyncio.ensure_future(_run_all(wanted))
    arrived: list[int] = []

    def end(number: int) -> None:
        arrived.append(number)
        running.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, end, number)
    try:
        return await running
    except asyncio.CancelledError:
        raise SystemExit(128 + arrived[0]) from None


def _leave_cluster(*, in_ci: bool) -> None:
    """Remove the cluster in CI. Elsewhere the next run reuses it."""
    if in_ci:
        subprocess.run([sys.executable, "-m", "e2e.cluster", "down"], check=False)
    else:
        print("\nthe cluster stays for the next run; make down takes it away")


def main(names: Sequence[str]) -> int:
    wanted = [ring for ring in RINGS if not names or ring.name in names]
    results = asyncio.run(_until_signal(wanted))
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


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
