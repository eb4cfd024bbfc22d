"""`make bench-agent`: the runtime's server beside a bare one of the a2a-sdk, in one run.

    python -m tests.bench.agent_bench [--parts start,rates,chunks,memory,requests,streams,identity,hostile]

Says what it measured and ends with 0, whether the bars hold or not.
"""

import argparse
import asyncio
import os
import tempfile
import time
from pathlib import Path

from tests.bench import agent_measures as measures
from tests.bench.agent_measures import Stage
from tests.bench.echo.environment import python_of
from tests.bench.table import Row, tell

PARTS = ("start", "rates", "chunks", "memory", "requests", "streams", "hostile", "identity")


async def run(stage: Stage, parts: list[str]) -> list[Row]:
    rows: list[Row] = []
    for part in parts:
        began = time.monotonic()
        try:
            rows += await getattr(measures, part)(stage)
        except Exception as error:
            print(f"  {part} broke: {error}", flush=True)
            rows.append(Row(f"{part}: broke", 1.0, "", 0.0))
        print(f"  {part} took {time.monotonic() - began:.0f} s", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description="the runtime's server beside a bare one")
    parser.add_argument("--parts", default=",".join(PARTS), help="which to run, in this order")
    arguments = parser.parse_args()
    pythons = {name: python_of(name) for name in ("agent", "reference-agent")}
    with tempfile.TemporaryDirectory(prefix="fleetwright-bench-") as folder:
        rows = asyncio.run(
            run(
                Stage(Path(folder), ours=pythons["agent"], reference=pythons["reference-agent"]),
                arguments.parts.split(","),
            )
        )
    tell("agent", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
