"""`make bench-workspace`: the runner beside the same work in one process, and its search beside ripgrep.

    python -m tests.bench.workspace_bench [--parts read,command,…] [--smoke] [--json FILE]

It prints the figures. It exits with 1 if a part breaks or a figure cannot be true, but not if a bar is missed.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.run_folder import run_folder
from tests.bench.parts import make_parser
from tests.bench.report import Report
from tests.bench.workspace.measures import PARTS
from tests.bench.workspace.stage import WorkspaceStage


def main(words: Sequence[str] | None = None) -> int:
    arguments = make_parser("workspace", "the runner beside the same work in one process", PARTS).parse_args(words)
    report = Report("workspace", parts=arguments.parts, smoke=arguments.smoke)
    with run_folder("fleetwright-bench-") as folder, WorkspaceStage(folder) as stage:
        asyncio.run(report.run_parts(PARTS, arguments.parts, stage))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
