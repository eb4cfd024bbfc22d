"""`python -m tests.rings check | test | test-cluster | test-all | RING …`: run rings, and end with one summary.

A name of a ring runs the whole of it. RESUME=1 skips rings that are green on the same tree. With CI=true, a ring that
cannot run counts as failed.
"""

import argparse
import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.paths import CHECKOUT
from tests.rings.catalogue import CANNOT_RUN, CONTROL_PLANE_PROGRAMS, RINGS, RUNS, Ring, stages_of
from tests.rings.results import Results, ring_key
from tests.rings.runner import Result, repeat_failures, run_ring
from tests.rings.summary import is_red, summary_lines
from tests.support.machine import ceiling, machine_factor

FOLDER = CHECKOUT / "build" / "rings"


async def run_stages(stages: Sequence[Sequence[Ring]], results: Results, folder: Path) -> list[Result]:
    """Run the stages in order, and the rings of each at the same time. Repeat the failures of a stage after it.

    After a failed build of programs, the rings of later stages would each try to build them again. They do not run.
    """
    ended: list[Result] = []
    for stage in stages:
        if failed := [result.ring.name for result in ended if result.ring.builds and result.failed]:
            ended += [Result(ring, CANNOT_RUN, 0.0, reason=f"{failed[0]} failed") for ring in stage]
            continue
        is_concurrent = len(stage) > 1
        first = await asyncio.gather(*(run_ring(ring, is_concurrent=is_concurrent, folder=folder) for ring in stage))
        for result in [await repeat_failures(each, folder) for each in first]:
            results.add(result)
            ended.append(result)
    return ended


async def _run_until_signal(stages: Sequence[Sequence[Ring]], results: Results, folder: Path) -> list[Result]:
    """Run the stages. A signal to this program ends them first.

    Raises:
        SystemExit: if a signal arrived.
    """
    running = asyncio.ensure_future(run_stages(stages, results, folder))
    arrived: list[int] = []

    def end(number: int) -> None:
        if not arrived:  # Another signal must not interrupt the end of the rings, which have a session of their own.
            running.cancel()
        arrived.append(number)

    # A signal that the caller ignores, as nohup does, stays ignored.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        elif number == signal.SIGINT:
            # The rings are ended by this signal. They would inherit that it is ignored, but not a handler.
            signal.signal(number, lambda *_: None)
    try:
        return await running
    except asyncio.CancelledError:
        raise SystemExit(128 + arrived[0]) from None


def _leave_cluster(*, in_ci: bool) -> None:
    """Remove the cluster in CI. Elsewhere the next run reuses it."""
    if in_ci:
        try:
            subprocess.run([sys.executable, "-m", "e2e.cluster", "down"], check=False, timeout=ceiling())
        except subprocess.TimeoutExpired:
            print("the cluster was not removed in time")
    else:
        print("\nthe cluster stays for the next run; `make down` removes it")


def _note_about_cluster() -> str:
    """Return what `make test` leaves out, the commands that run it, and whether their programs exist."""
    missing = binaries.missing_programs(CONTROL_PLANE_PROGRAMS)
    programs = f"it would first build {', '.join(missing)}" if missing else "its programs were found"
    return f"not run: tests that need Kubernetes. `make controlplane` tests the operator, and {programs}"


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rings", description="run tests, and end with one summary")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"one of {', '.join(RUNS)}, or some of {', '.join(RINGS)}"
    )
    names = parser.parse_args(words).names
    try:
        stages = stages_of(names)
    except ValueError as error:
        parser.error(str(error))
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = Results(FOLDER, CHECKOUT)
    is_resumed = os.environ.get("RESUME", "") not in {"", "0"}
    if is_resumed and not results.is_known:
        print("RESUME has no effect, because git cannot read this checkout")
    green = results.green_rings() if is_resumed else {}
    skipped = {ring.name: green[ring_key(ring)] for stage in stages for ring in stage if ring_key(ring) in green}
    stages = [[ring for ring in stage if ring_key(ring) not in green] for stage in stages]
    print(f"this machine is {machine_factor():.2f} times slower than the reference; ceilings grow by that factor")
    # Two runs in one checkout must not read each other's outcomes.
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="run-") as folder:
        ended = asyncio.run(_run_until_signal([stage for stage in stages if stage], results, Path(folder)))
    in_ci = os.environ.get("CI", "") not in {"", "0", "false"}
    if any(result.ring.name == "cluster" for result in ended):
        _leave_cluster(in_ci=in_ci)
    print("\n".join(summary_lines(ended, skipped, in_ci=in_ci)))
    if names == ["test"]:
        print(_note_about_cluster())
    return int(is_red(ended, in_ci=in_ci))


if __name__ == "__main__":
    sys.exit(main())
