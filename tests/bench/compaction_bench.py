"""`make bench-compaction`: the runtime's compaction, LangChain's and deepagents', on the same seeded fixtures.

    python -m tests.bench.compaction_bench [--quick] [--seed N]

It prints the figures and exits with 0, whether or not they meet the targets. It needs no model and no network.
"""

import argparse
import asyncio
import json
import logging
import subprocess
import time
from pathlib import Path

from e2e.cluster.run_folder import run_folder
from tests.bench.compaction import measures, own
from tests.bench.compaction.ours import opener
from tests.bench.compaction.targets import TARGETS, Figures, told
from tests.bench.echo.environment import python_of
from tests.bench.table import FOLDER

SYSTEMS = ("ours", "langchain", "langchain-untrimmed", "deepagents")
CHECKOUT = Path(__file__).parents[2]
_BASELINE_SECONDS = 900


async def ours(*, quick: bool, seed: int) -> Figures:
    shared = await measures.run(opener(), measures.ALL, quick=quick, seed=seed)
    return shared | await own.run(quick=quick, seed=seed)


async def baseline(name: str, *, quick: bool, seed: int) -> Figures:
    """Measure a baseline in a process with its own environment."""
    python = await asyncio.to_thread(python_of, "reference-compaction")
    command = [str(python), "-m", "tests.bench.compaction.baselines", name, ",".join(measures.ALL), str(seed)]
    process = await asyncio.create_subprocess_exec(
        *command, *(["quick"] if quick else []), cwd=CHECKOUT, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    async with asyncio.timeout(_BASELINE_SECONDS):
        printed, wrong = await process.communicate()
    if process.returncode:
        raise SystemExit(f"{name} could not be measured:\n{wrong.decode()[-2000:]}")
    found: Figures = json.loads(printed)
    return found


async def measure(*, quick: bool, seed: int) -> dict[str, Figures]:
    waiting = [asyncio.create_task(baseline(name, quick=quick, seed=seed)) for name in SYSTEMS[1:]]
    mine = await asyncio.to_thread(asyncio.run, ours(quick=quick, seed=seed))
    return dict(zip(SYSTEMS, (mine, *[await task for task in waiting]), strict=True))


def rows(figures: dict[str, Figures]) -> list[tuple[str, ...]]:
    return [
        (
            target.check,
            *(told(target.value(figures[name]), target.unit) for name in SYSTEMS),
            target.promise,
            "met" if target.holds(figures["ours"]) else "missed",
        )
        for target in TARGETS
    ]


def tell(figures: dict[str, Figures], seconds: float, seed: int) -> None:
    FOLDER.mkdir(parents=True, exist_ok=True)
    lines = [("check", *SYSTEMS, "target", ""), *rows(figures)]
    table = [dict(zip(("check", *SYSTEMS, "target", "verdict"), line, strict=True)) for line in lines[1:]]
    document = {"seed": seed, "seconds": round(seconds), "figures": figures, "rows": table}
    (FOLDER / "compaction.json").write_text(json.dumps(document, indent=1) + "\n")
    widths = [max(len(line[column]) for line in lines) for column in range(len(lines[0]))]
    for line in lines:
        print("  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip())
    met = sum(target.holds(figures["ours"]) for target in TARGETS)
    print(f"targets: {met} of {len(TARGETS)} met")


def main() -> None:
    parser = argparse.ArgumentParser(description="compaction beside that of others")
    parser.add_argument("--quick", action="store_true", help="smaller samples of everything")
    parser.add_argument("--seed", type=int, default=measures.SEED, help="of the fixtures")
    arguments = parser.parse_args()
    # Broken summarisers are part of the measurement; their stack traces are noise.
    logging.disable(logging.CRITICAL)
    began = time.monotonic()
    with run_folder("fleetwright-bench-"):
        figures = asyncio.run(measure(quick=arguments.quick, seed=arguments.seed))
    tell(figures, time.monotonic() - began, arguments.seed)


if __name__ == "__main__":
    main()
