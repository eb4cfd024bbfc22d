"""`python -m e2e.walk [--seed 7] [--every 1] [--walks 30]`: run the walk, print its findings, and a summary line."""

import argparse
import asyncio
import json
import random
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.parts import CONTROL_PLANE
from e2e.cluster.progress import CANNOT_RUN
from e2e.cluster.run_folder import run_folder
from e2e.control_plane.client import Client, Object
from e2e.control_plane.installation import install_crds, install_release
from e2e.control_plane.process import OperatorProcess
from e2e.control_plane.watch_cache import WatchCache
from e2e.walk.bases import NAMES
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


class _Waits:
    """The namespaces for which the walk waits, with their objects."""

    def __init__(self) -> None:
        self.objects: dict[str, Mapping[tuple[str, str], Object]] = {}

    def describe(self) -> str:
        """Return a line for each namespace: the object that the walk edits, and its spec."""
        return "".join(f"  open: {space}: {_describe_edited(objects)}\n" for space, objects in self.objects.items())


def _describe_edited(objects: Mapping[tuple[str, str], Object]) -> str:
    own = [body for (kind, _), body in objects.items() if kind in NAMES]
    # The walk edits one of the objects. The others keep their first generation.
    edited = max(own, key=lambda body: int(body["metadata"]["generation"]), default=None)
    return f"{edited['kind']} with the spec {json.dumps(edited['spec'])}" if edited else "no object yet"


class _ObservedCache(WatchCache):
    """A watch cache that records for which namespaces the walk waits."""

    def __init__(self, client: Client, waits: _Waits) -> None:
        super().__init__(client)
        self._waits = waits

    async def until(self, namespace: str, holds: Callable[[], bool], *, seconds: float, pause: float = 0.1) -> bool:
        self._waits.objects[namespace] = self.objects(namespace)
        try:
            return await super().until(namespace, holds, seconds=seconds, pause=pause)
        finally:
            del self._waits.objects[namespace]


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
    waits = _Waits()
    with (
        run_folder("fleetwright-walk-", describe_work=lambda _: waits.describe()) as folder,
        ControlPlane(folder / "plane", controllers=_CONTROLLERS, audited=True, roomy=True) as plane,
    ):
        context, complaints = asyncio.run(_walk(plane, folder, arguments, waits))
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


async def _walk(
    plane: ControlPlane, folder: Path, arguments: argparse.Namespace, waits: _Waits
) -> tuple[WalkContext, list[str]]:
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
        async with _ObservedCache(client, waits) as watch_cache:
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
