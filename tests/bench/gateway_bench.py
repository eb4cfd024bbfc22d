"""`make bench-gateway`: the gateway in front of an agent, beside direct calls of the agent, in one run.

    python -m tests.bench.gateway_bench [--parts latency,streams,tokens,registry,memory]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import asyncio
import os

from e2e.cluster.run_folder import run_folder
from tests.bench.gateway.measures import PARTS
from tests.bench.parts import add_parts_option, rows_of
from tests.bench.table import tell


def main() -> None:
    parser = argparse.ArgumentParser(description="the gateway beside direct calls")
    add_parts_option(parser, PARTS)
    arguments = parser.parse_args()
    with run_folder("fleetwright-bench-") as folder:
        rows = asyncio.run(rows_of({name: PARTS[name] for name in arguments.parts}, folder))
    tell("gateway", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
