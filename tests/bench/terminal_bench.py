"""`make bench-terminal`: what `fleetwright chat` writes, how soon it echoes keys, and what it uses, while text streams.

    python -m tests.bench.terminal_bench [--parts start,stream,…] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.run_folder import run_folder
from tests.bench.parts import make_parser
from tests.bench.report import Report
from tests.bench.terminal.measures import PARTS


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser("terminal", "the terminal while text streams", PARTS).parse_args(words)
    report = Report("terminal", parts=arguments.parts, smoke=arguments.smoke)
    with run_folder("fleetwright-bench-") as folder:
        asyncio.run(report.run_parts(PARTS, arguments.parts, folder))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
