"""`make bench-compaction`: the runtime's compaction, LangChain's and deepagents', on the same seeded fixtures.

    python -m tests.bench.compaction_bench [--parts facts,ledger,…] [--quick] [--seed N] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a target is missed. It
needs no model and no network.
"""

import argparse
import asyncio
import json
import logging
import subprocess
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import partial

from e2e.cluster.paths import CHECKOUT
from e2e.cluster.run_folder import run_folder
from tests.bench.compaction import measures, own
from tests.bench.compaction.ours import opener
from tests.bench.compaction.targets import TARGETS, Figures, Target, told
from tests.bench.echo.environment import python_of
from tests.bench.parts import Part, make_parser
from tests.bench.report import Report
from tests.bench.table import Row, print_columns
from tests.support.machine import machine_factor

SYSTEMS = ("ours", "langchain", "langchain-untrimmed", "deepagents")
_SMOKE = frozenset({"rules", "malicious", "floor", "prefix", "speed", "books", "kills", "large"})
"""`test_compaction_targets.py` runs the quick form of the other measures, and of some of these."""
PARTS = {
    **{name: Part(getattr(measures, name), {} if name in _SMOKE else None) for name in measures.ALL},
    **{name: Part(getattr(own, name), {} if name in _SMOKE else None) for name in own.ALL},
}
_BASELINE_SECONDS = 900
"""A baseline has failed after this time, multiplied by the factor of the machine."""


async def _measure_ours(parts: Sequence[str], *, quick: bool, seed: int) -> Figures:
    shared = [name for name in parts if name in measures.ALL]
    alone = [name for name in parts if name in own.ALL]
    return await measures.run(opener(), shared, quick=quick, seed=seed) | await own.run(alone, quick=quick, seed=seed)


async def _measure_baseline(name: str, parts: Sequence[str], *, quick: bool, seed: int) -> Figures:
    """Measure a baseline in a process with its own environment."""
    python = await asyncio.to_thread(python_of, "reference-compaction")
    command = [str(python), "-m", "tests.bench.compaction.baselines", name, ",".join(parts), str(seed)]
    process = await asyncio.create_subprocess_exec(
        *command, *(["quick"] if quick else []), cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(_BASELINE_SECONDS * machine_factor()):
        printed, wrong = await process.communicate()
    if process.returncode:
        raise RuntimeError(f"{name} could not be measured:\n{wrong.decode()[-2000:]}")
    found: Figures = json.loads(printed)
    return found


async def _measure_all(parts: Sequence[str], *, quick: bool, seed: int) -> dict[str, Figures]:
    shared = [name for name in parts if name in measures.ALL]
    baselines = [asyncio.create_task(_measure_baseline(name, shared, quick=quick, seed=seed)) for name in SYSTEMS[1:]]
    mine = await asyncio.to_thread(asyncio.run, _measure_ours(parts, quick=quick, seed=seed))
    return dict(zip(SYSTEMS, (mine, *[await task for task in baselines]), strict=True))


def _to_row(target: Target, value: float) -> Row:
    scale = 100 if target.unit == "%" else 1
    return Row(
        target.check,
        value * scale,
        target.unit.strip(),
        target.bar * scale,
        at_least=target.at_least,
        is_difference=target.is_difference,
    )


def _add_parts(report: Report, parts: Sequence[str], figures: Mapping[str, Figures]) -> None:
    for part in parts:
        values = {target: target.value(figures["ours"]) for target in TARGETS if target.measure == part}
        report.add(part, [_to_row(target, value) for target, value in values.items() if value is not None])
        for target, value in values.items():
            if value is None:
                report.problems.append(f"{report.bench}: {part}: {target.check}: there is no figure")


def _print_targets(parts: Sequence[str], figures: Mapping[str, Figures], _: Sequence[Row]) -> None:
    targets = [target for target in TARGETS if target.measure in parts]
    lines = [
        (
            target.check,
            *(told(target.value(figures[name]), target.unit) for name in SYSTEMS),
            target.promise,
            "met" if target.holds(figures["ours"]) else "missed",
        )
        for target in targets
    ]
    print_columns([("check", *SYSTEMS, "target", ""), *lines])
    print(f"targets: {sum(target.holds(figures['ours']) for target in targets)} of {len(targets)} met")


def _run(report: Report, parts: Sequence[str], arguments: argparse.Namespace) -> int:
    began = time.monotonic()
    figures: dict[str, Figures] = {name: {} for name in SYSTEMS}
    try:
        with run_folder("fleetwright-bench-"):
            quick = arguments.quick or arguments.smoke
            figures = asyncio.run(_measure_all(parts, quick=quick, seed=arguments.seed))
    except Exception as error:
        traceback.print_exc()
        report.problems.append(f"{report.bench}: {','.join(parts)} broke: {error!r}")
    else:
        _add_parts(report, parts, figures)
    report.facts |= {"seconds": round(time.monotonic() - began), "figures": figures}
    return report.finish(arguments.json, print_rows=partial(_print_targets, parts, figures))


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser("compaction", "compaction beside that of others", PARTS)
    parser.add_argument("--quick", action="store_true", help="smaller samples of everything")
    parser.add_argument("--seed", type=int, default=measures.SEED, help="of the fixtures")
    arguments = parser.parse_args(words)
    # Broken summarisers are part of the measurement; their stack traces are noise.
    logging.disable(logging.CRITICAL)
    parts = [name for name in arguments.parts if not arguments.smoke or PARTS[name].smoke is not None]
    report = Report("compaction", parts=parts, smoke=arguments.smoke, seed=arguments.seed)
    return _run(report, parts, arguments)


if __name__ == "__main__":
    sys.exit(main())
