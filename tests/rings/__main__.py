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
from e2e.cluster.progress import CANNOT_RUN
from tests.rings.catalogue import CONTROL_PLANE_PROGRAMS, RINGS, RUNS, Ring, select_stages
from tests.rings.results import ResultStore, select_skipped
from tests.rings.runner import Result, repeat_failures, run_ring
from tests.rings.summary import format_summary, has_failures
from tests.support.machine import ceiling, is_in_ci, machine_factor

FOLDER = CHECKOUT / "build" / "rings"


async def run_stages(stages: Sequence[Sequence[Ring]], results: ResultStore, folder: Path) -> list[Result]:
    """Run the stages in order, and the rings of each at the same time. Repeat the failures of a stage after it.

    A ring waits for those that it names in `after`. After a failed build of programs, the rings of later stages would
    each try to build them again. They do not run.
    """
    ended: list[Result] = []
    for stage in stages:
        if failed := [result.ring.name for result in ended if result.ring.builds and result.failed]:
            ended += [Result(ring, CANNOT_RUN, 0.0, reason=f"{failed[0]} failed") for ring in stage]
            continue
        for first in await _run_stage(stage, results, folder):
            result = await repeat_failures(first, folder)
            if not first.is_green:
                results.add(result)
            ended.append(result)
    return ended


async def _run_stage(stage: Sequence[Ring], results: ResultStore, folder: Path) -> list[Result]:
    has_ended = {ring.name: asyncio.Event() for ring in stage}

    async def run_recorded(ring: Ring) -> Result:
        if awaited := [name for name in ring.after if name in has_ended]:
            print(f"=== {ring.name} waits for {' and '.join(awaited)}", flush=True)
        for name in awaited:
            await has_ended[name].wait()
        result = await run_ring(ring, is_concurrent=len(stage) > 1, folder=folder)
        if result.is_green:
            # An interruption of the other rings must not lose this result.
            results.add(result)
        has_ended[ring.name].set()
        return result

    return await asyncio.gather(*(run_recorded(ring) for ring in stage))


async def _run_until_signal(stages: Sequence[Sequence[Ring]], results: ResultStore, folder: Path) -> list[Result]:
    """Run the stages. A signal to this program ends them first.

    Raises:
        SystemExit: if a signal arrived.
    """
    running = asyncio.ensure_future(run_stages(stages, results, folder))
    arrived: list[int] = []

    def end(number: int) -> None:
        # Another signal must not interrupt the end of the rings. Each is a session, so only this program ends it.
        if not arrived:
            running.cancel()
        arrived.append(number)

    # A signal that the caller ignores, as nohup does, stays ignored.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) != signal.SIG_IGN:
            asyncio.get_running_loop().add_signal_handler(number, end, number)
        elif number == signal.SIGINT:
            # The runner ends rings with SIGINT. A child inherits an ignored signal, but not a handler.
            signal.signal(number, lambda *_: None)
    try:
        return await running
    except asyncio.CancelledError:
        raise SystemExit(128 + arrived[0]) from None


def remove_cluster(command: Sequence[str], *, seconds: float) -> str:
    """Run the command that removes the cluster, and return why it has failed; empty if it has not."""
    try:
        code = subprocess.run(command, check=False, timeout=seconds).returncode
    except subprocess.TimeoutExpired:
        return f"the cluster was not removed in {seconds:.0f} s; run `make down`"
    return f"the cluster was not removed, exit code {code}; run `make down`" if code else ""


def _describe_omitted_tests() -> str:
    """Return what `make test` leaves out, the commands that run it, and whether their programs exist."""
    missing = binaries.missing_programs(CONTROL_PLANE_PROGRAMS)
    programs = f"it builds {', '.join(missing)} first, for up to 12 minutes" if missing else "its programs were found"
    return (
        "not run: tests that need Kubernetes. `make test-cluster` runs them. `make controlplane` tests the operator"
        f" alone; {programs}"
    )


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.rings", description="run tests, and end with one summary")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help=f"one of {', '.join(RUNS)}, or some of {', '.join(RINGS)}"
    )
    names = parser.parse_args(words).names
    try:
        stages = select_stages(names)
    except ValueError as error:
        parser.error(str(error))
    FOLDER.mkdir(parents=True, exist_ok=True)
    results = ResultStore(FOLDER, CHECKOUT)
    is_resumed = os.environ.get("RESUME", "") not in {"", "0"}
    if is_resumed and not results.is_known:
        print("RESUME has no effect, because git cannot read this checkout")
    green = results.read_green_rings() if is_resumed else {}
    in_ci = is_in_ci()
    skipped = select_skipped(stages, green, in_ci=in_ci)
    stages = [[ring for ring in stage if ring.name not in skipped] for stage in stages]
    print(f"ceilings are multiplied by {machine_factor():.2f}, the factor of this machine (1.00 is the reference)")
    # Two runs in one checkout must not read each other's outcomes.
    with tempfile.TemporaryDirectory(dir=FOLDER, prefix="run-") as folder:
        ended = asyncio.run(_run_until_signal([stage for stage in stages if stage], results, Path(folder)))
    left = ""
    if any(result.ring.name == "cluster" for result in ended):
        # Elsewhere the next run reuses it.
        if in_ci:
            left = remove_cluster((sys.executable, "-m", "e2e.cluster", "down"), seconds=ceiling())
        else:
            print("\nthe cluster stays for the next run; `make down` removes it")
    print("\n".join(format_summary(ended, skipped, in_ci=in_ci)))
    if left:
        print(left)
    if names == ["test"]:
        print(_describe_omitted_tests())
    return int(bool(left) or has_failures(ended, skipped, in_ci=in_ci))


if __name__ == "__main__":
    sys.exit(main())
