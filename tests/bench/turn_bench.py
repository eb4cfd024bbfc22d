"""`make bench-turn`: what the loop, the memory and the prompt cost beside the model, in one run.

    python -m tests.bench.turn_bench [--parts durable,recall,first_token,prompt,compaction,memory]

Says what it measured and ends with 0, whether the bars hold or not.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from tests.bench import turn_measures as measures
from tests.bench.table import Row, tell

PARTS = ("durable", "recall", "first_token", "prompt", "compaction", "memory")


async def run(folder: Path, parts: list[str]) -> list[Row]:
    rows: list[Row] = []
    for part in parts:
        began = time.monotonic()
        rows += await getattr(measures, part)(folder)
        print(f"  {part} took {time.monotonic() - began:.0f} s", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="what a turn costs beside its model")
    parser.add_argument("--parts", default=",".join(PARTS), help="which to run, in this order")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="fleetwright-bench-") as folder:
        rows = asyncio.run(run(Path(folder), arguments.parts.split(",")))
    tell("turn", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
