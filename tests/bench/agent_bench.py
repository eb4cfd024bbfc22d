"""`make bench-agent`: the runtime's server and a bare server of the a2a-sdk in one run.

    python -m tests.bench.agent_bench [--parts start,rates,chunks,memory,requests,streams,identity,hostile]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import asyncio
import os

from e2e.cluster.run_folder import run_folder
from tests.bench import agent_measures as measures
from tests.bench.agent_measures import Stage
from tests.bench.echo.environment import python_of
from tests.bench.parts import add_parts_option, rows_of
from tests.bench.table import tell

PARTS = ("start", "rates", "chunks", "memory", "requests", "streams", "hostile", "identity")


def main() -> None:
    parser = argparse.ArgumentParser(description="the runtime's server beside a bare one")
    add_parts_option(parser, PARTS)
    arguments = parser.parse_args()
    pythons = {name: python_of(name) for name in ("agent", "reference-agent")}
    with run_folder("fleetwright-bench-") as folder:
        stage = Stage(folder, ours=pythons["agent"], reference=pythons["reference-agent"])
        parts = {name: getattr(measures, name) for name in arguments.parts}
        rows = asyncio.run(rows_of(parts, stage))
    tell("agent", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
