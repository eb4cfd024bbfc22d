"""`make bench-operator`: the operator and a bare client on one control plane, in one run.

    python -m tests.bench.operator_bench [--parts alone,hundred,latency,burst,…] [--many 10000] [--churn 600]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import asyncio
import os
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.run_folder import run_folder
from tests.bench import operator_measures as measures
from tests.bench.parts import add_parts_option, rows_of
from tests.bench.stage import CONTROLLERS, Stage
from tests.bench.table import Row, tell

PARTS = ("ceilings", "alone", "hundred", "latency", "burst", "floor", "rest", "asleep", "failover", "churn")
APART = frozenset({"floor"})
"""Parts that need an empty control plane."""


async def run(folder: Path, plane: ControlPlane, parts: Sequence[str], arguments: argparse.Namespace) -> list[Row]:
    options = {
        "burst": {"many": arguments.many},
        "floor": {"many": arguments.many},
        "churn": {"seconds": arguments.churn},
    }
    async with Stage(plane, folder) as stage:
        return await rows_of({name: getattr(measures, name) for name in parts}, stage, options=options)


def on_one_plane(parts: Sequence[str], arguments: argparse.Namespace) -> list[Row]:
    with (
        run_folder("fleetwright-bench-") as folder,
        ControlPlane(folder / "plane", controllers=CONTROLLERS) as plane,
    ):
        return asyncio.run(run(folder, plane, parts, arguments))


def main() -> None:
    parser = argparse.ArgumentParser(description="the operator beside a bare client")
    add_parts_option(parser, PARTS)
    parser.add_argument("--many", type=int, default=10_000, help="the large burst; 0 leaves it out")
    parser.add_argument("--churn", type=float, default=600.0, help="seconds of churn")
    arguments = parser.parse_args()
    rows = [row for part in arguments.parts if part in APART for row in on_one_plane([part], arguments)]
    if together := [part for part in arguments.parts if part not in APART]:
        rows += on_one_plane(together, arguments)
    facts = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts}
    tell("operator", rows, facts=facts)


if __name__ == "__main__":
    main()
