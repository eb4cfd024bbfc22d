"""`python -m e2e.walk [--seed 7] [--every 1] [--walks 30]`: run the walk, print its findings, and a summary line."""

import argparse
import asyncio
import random
import sys
import time
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.parts import CONTROL_PLANE
from e2e.cluster.progress import CANNOT_RUN
from e2e.cluster.run_folder import run_folder
from e2e.control_plane.client import Client
from e2e.control_plane.installation import install_crds, install_release
from e2e.control_plane.process import OperatorProcess
from e2e.control_plane.watch_cache import WatchCache
from e2e.walk.learning import learn
from e2e.walk.walk_context import WalkContext
from e2e.walk.walks import walk_properties, walk_randomly

_CONTROLLERS = (
    (
        "--controllers=namespace-controller,serviceaccount-controller,root-ca-certificate-publisher-controller,"
        "garbage-collector-controller"
    ),
)
"""There are no pods, because the walk compares only the objects that the operator writes."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.walk", description=__doc__)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000), help="repeats a walk")
    parser.add_argument("--every", type=int, default=1, help="walk every n-th property only")
    parser.add_argument("--walks", type=int, default=40, help="random sequences")
    arguments = parser.parse_args()
    if obstacle := binaries.obstacle((*CONTROL_PLANE, "helm")):
        print(obstacle)
        return CANNOT_RUN
    started = time.monotonic()
    print(f"seed {arguments.seed}", flush=True)
    with (
        run_folder("fleetwright-walk-") as folder,
        ControlPlane(folder / "plane", controllers=_CONTROLLERS, audited=True, roomy=True) as plane,
    ):
        context, complaints = asyncio.run(_walk(plane, folder, arguments))
        operator = ":fleetwright-operator"
        complaints += [
            f"the operator lacks the permission for {each.request}"
            for each in plane.refusals()
            if each.account.endswith(operator)
        ]
    for line in (*context.problems, *complaints):
        print(f"\n{line}")
    for line in context.held:
        print(f"  blocked, with a condition: {line}")
    for line in context.uncovered:
        print(f"  the API server accepted no value for {line}")
    taken = sum(len(edits) for edits in context.edits.values())
    print(f"{taken} values for {len({edit.path for edits in context.edits.values() for edit in edits})} properties")
    seconds = time.monotonic() - started
    wrong = len(context.problems) + len(complaints)
    print(
        f"{context.walked} edits walked, {context.refused} refused, {wrong} differ from a new object, "
        f"seed {arguments.seed}, {seconds:.0f} s"
    )
    return int(bool(wrong) or bool(context.uncovered) or not context.walked)


async def _walk(plane: ControlPlane, folder: Path, arguments: argparse.Namespace) -> tuple[WalkContext, list[str]]:
    async with Client(plane.server, plane.token, plane.ca) as client:
        await install_crds(client)
        installation = await install_release(client, "fleetwright-system")
        # No kubelet ends the pods of probes here, so an object that waits for a free place would wait for ever.
        environment = {
            "FLEETWRIGHT_LOG_LEVEL": "WARNING",
            "FLEETWRIGHT_STALLED_SECONDS": "5",
            "FLEETWRIGHT_PROBES": "1000",
        }
        process = OperatorProcess(
            folder / "operator", installation, server=plane.server, ca=plane.ca, environment=environment
        )
        async with WatchCache(client) as watch_cache:
            context = WalkContext(client, watch_cache)
            await process.started()
            try:
                await learn(context)
                await walk_properties(context, every=arguments.every, seed=arguments.seed)
                await walk_randomly(context, seed=arguments.seed, walks=arguments.walks)
            finally:
                process.kill_if_alive()
            return context, process.complaints()


if __name__ == "__main__":
    sys.exit(main())
