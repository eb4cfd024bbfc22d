"""`make bench-turn`: the cost of the loop, the memory and the prompt beside the model, in one run.

    python -m tests.bench.turn_bench [--parts durable,recall,…] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.run_folder import run_folder
from tests.bench.parts import make_parser
from tests.bench.report import Report
from tests.bench.turn_measures import PARTS

from fleetwright_agent.server import gc_tuning


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser("turn", "what a turn costs beside its model", PARTS).parse_args(words)
    report = Report("turn", parts=arguments.parts, smoke=arguments.smoke)
    with run_folder("fleetwright-bench-") as folder:
        gc_tuning.settle()  # The serving process does this too, so the parts that run here match it.
        asyncio.run(report.run_parts(PARTS, arguments.parts, folder))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
