"""`make bench-agent`: the runtime's server and a bare server of the a2a-sdk in one run.

    python -m tests.bench.agent_bench [--parts start,rates,…] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.run_folder import run_folder
from tests.bench.agent_measures import PARTS, Stage
from tests.bench.echo.environment import python_of
from tests.bench.parts import make_parser
from tests.bench.report import Report


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser("agent", "the runtime's server beside a bare one", PARTS).parse_args(words)
    report = Report("agent", parts=arguments.parts, smoke=arguments.smoke)
    pythons = {name: python_of(name) for name in ("agent", "reference-agent")}
    with run_folder("fleetwright-bench-") as folder:
        stage = Stage(folder, ours=pythons["agent"], reference=pythons["reference-agent"])
        asyncio.run(report.run_parts(PARTS, arguments.parts, stage))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
