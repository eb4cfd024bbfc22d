"""`make bench-terminal`: what `fleetwright chat` writes, how soon it echoes keys, and what it uses, while text streams.

    python -m tests.bench.terminal_bench [--parts start,stream,turns,fleet]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import asyncio
import os

from e2e.cluster.run_folder import run_folder
from tests.bench.parts import add_parts_option, rows_of
from tests.bench.table import tell
from tests.bench.terminal.measures import PARTS


def main() -> None:
    parser = argparse.ArgumentParser(description="the terminal while text streams")
    add_parts_option(parser, PARTS)
    arguments = parser.parse_args()
    with run_folder("fleetwright-bench-") as folder:
        rows = asyncio.run(rows_of({name: PARTS[name] for name in arguments.parts}, folder))
    tell("terminal", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
