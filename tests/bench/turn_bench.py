"""`make bench-turn`: the cost of the loop, the memory and the prompt beside the model, in one run.

    python -m tests.bench.turn_bench [--parts durable,recall,first_token,prompt,compaction,memory,long_answers]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import asyncio
import os

from e2e.cluster.run_folder import run_folder
from tests.bench import turn_measures as measures
from tests.bench.parts import add_parts_option, rows_of
from tests.bench.table import tell

from fleetwright_agent.server import gc_tuning

PARTS = ("durable", "recall", "first_token", "prompt", "compaction", "memory", "long_answers")


def main() -> None:
    parser = argparse.ArgumentParser(description="what a turn costs beside its model")
    add_parts_option(parser, PARTS)
    arguments = parser.parse_args()
    with run_folder("fleetwright-bench-") as folder:
        gc_tuning.settle()  # The serving process does this too, so the parts that run here match it.
        parts = {name: getattr(measures, name) for name in arguments.parts}
        rows = asyncio.run(rows_of(parts, folder))
    tell("turn", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
