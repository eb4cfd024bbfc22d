"""`make bench-gateway`: the gateway in front of an agent, beside direct calls of the agent, in one run.

    python -m tests.bench.gateway_bench [--parts latency,streams,…] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.run_folder import run_folder
from tests.bench.gateway.measures import PARTS
from tests.bench.parts import make_parser
from tests.bench.report import Report


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser("gateway", "the gateway beside direct calls", PARTS).parse_args(words)
    report = Report("gateway", parts=arguments.parts, smoke=arguments.smoke)
    with run_folder("fleetwright-bench-") as folder:
        asyncio.run(report.run_parts(PARTS, arguments.parts, folder))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
