"""`make bench-operator`: the operator and a bare client on one control plane, in one run.

    python -m tests.bench.operator_bench [--parts alone,hundred,…] [--many 10000] [--churn 600] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed. It exits
with 77 if this machine cannot run a control plane. The smallest form also exits with 77 if the programs of a control
plane have not been built.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.cluster import binaries
from e2e.cluster.control_plane import ControlPlane
from e2e.cluster.parts import CONTROL_PLANE
from e2e.cluster.progress import CANNOT_RUN
from e2e.cluster.run_folder import run_folder
from tests.bench.operator_measures import PARTS
from tests.bench.parts import make_parser
from tests.bench.report import Report
from tests.bench.stage import CONTROLLERS, Stage

APART = frozenset({"floor"})
"""Parts that need an empty control plane."""
_NEEDED = (*CONTROL_PLANE, "helm")


async def _run_on_stage(
    report: Report, folder: Path, plane: ControlPlane, parts: Sequence[str], arguments: argparse.Namespace
) -> None:
    options = {
        "burst": {"many": arguments.many},
        "floor": {"many": arguments.many},
        "churn": {"seconds": arguments.churn},
    }
    async with Stage(plane, folder) as stage:
        await report.run_parts(PARTS, parts, stage, options=options)


def _run_on_one_plane(report: Report, parts: Sequence[str], arguments: argparse.Namespace) -> None:
    with (
        run_folder("fleetwright-bench-") as folder,
        ControlPlane(folder / "plane", controllers=CONTROLLERS) as plane,
    ):
        asyncio.run(_run_on_stage(report, folder, plane, parts, arguments))


def _obstacle(*, may_build: bool) -> str | None:
    """Return the reason why there can be no control plane."""
    if may_build:
        return binaries.obstacle(_NEEDED)
    missing = binaries.missing_programs(_NEEDED)
    return f"python -m e2e.cluster binaries builds {', '.join(missing)}" if missing else None


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser("operator", "the operator beside a bare client", PARTS)
    parser.add_argument("--many", type=int, default=10_000, help="the large burst; 0 leaves it out")
    parser.add_argument("--churn", type=float, default=600.0, help="seconds of churn")
    arguments = parser.parse_args(words)
    if obstacle := _obstacle(may_build=not arguments.smoke):
        print(f"operator: cannot run: {obstacle}")
        return CANNOT_RUN
    report = Report("operator", parts=arguments.parts, smoke=arguments.smoke)
    for part in arguments.parts:
        if part in APART:
            _run_on_one_plane(report, [part], arguments)
    if together := [part for part in arguments.parts if part not in APART]:
        _run_on_one_plane(report, together, arguments)
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
