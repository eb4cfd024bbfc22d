"""`python -m tests.rings check | test | test-cluster | test-all | RING …`: run rings, and end with one summary.

A name of a ring runs the whole of it. RESUME=1 skips rings that are green on the same tree. With CI=true, a ring that
cannot run counts as failed.
"""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.paths import CHECKOUT
from tests.rings.catalogue import CONTROL_PLANE_PROGRAMS, Ring, stages_of
from tests.rings.results import Results, ring_key, tree_of
from tests.rings.runner import Result, run_ring
from tests.rings.summary import is_red, summary_lines
from tests.support.machine import machine_factor

FOLDER = CHECKOUT / "build" / "rings"


async def run_stages(stages: Sequence[Sequence[Ring]], results: Results, folder: Path) -> list[Result]:
    """Run the stages in order, and the rings of each at the same time."""

    async def run(ring: Ring, *, beside: bool) -> Result:
        result = await run_ring(ring, beside=beside, folder=folder)
        results.add(result)
        return result

    ended: list[Result] = []
    for stage in stages:
        ended += await asyncio.gather(*(run(ring, beside=len(stage) > 1) for ring in stage))
    return ended


async def _until_signal(stages: Sequence[Sequence[Ring]], results: Results) -> list[Result]:
    """Run the stages. A signal to this program ends them first.

    Raises:
        SystemExit: if a signal arrived.
    """
    running = asyncio.ensure_future(run_stages(stages, results, FOLDER))
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
        print("\nthe cluster stays for the next run; `make down` removes it")


def _note_about_cluster() -> str:
    """Return what `make test` leaves out, the commands that run it, and whether their programs exist."""
    missing = binaries.missing_programs(CONTROL_PLANE_PROGRAMS)
    programs = f"it would first build {', '.join(missing)}" if missing else "its programs were found"
    return f"not run: tests that need Kubernetes. `make controlplane` tests the operator, and {programs}"


def main(names: Sequence[str]) -> int:
    try:
        stages = stages_of(names)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = Results(FOLDER, tree_of(CHECKOUT))
    green = results.green_rings() if os.environ.get("RESUME", "") not in {"", "0"} else set()
    skipped = [ring.name for stage in stages for ring in stage if ring_key(ring) in green]
    stages = [[ring for ring in stage if ring_key(ring) not in green] for stage in stages]
    print(f"this machine is {machine_factor():.2f} times slower than the reference; ceilings grow by that factor")
    ended = asyncio.run(_until_signal([stage for stage in stages if stage], results))
    in_ci = os.environ.get("CI", "") not in {"", "0", "false"}
    if any(result.ring.name == "cluster" for result in ended):
        _leave_cluster(in_ci=in_ci)
    print("\n".join(summary_lines(ended, skipped, in_ci=in_ci)))
    if list(names) == ["test"]:
        print(_note_about_cluster())
    return int(is_red(ended, in_ci=in_ci))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
