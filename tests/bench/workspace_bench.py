"""`make bench-workspace`: the runner beside the same work in one process, and its search beside ripgrep.

    python -m tests.bench.workspace_bench [--parts read,command,search,edit,memory]

It prints the figures and exits with 0, whether or not they meet the bars.
"""

import argparse
import os

from e2e.cluster.run_folder import run_folder
from tests.bench.parts import add_parts_option
from tests.bench.table import Row, tell
from tests.bench.workspace import measures
from tests.bench.workspace.stage import WorkspaceStage

PARTS = ("read", "command", "search", "edit", "memory")


def main() -> None:
    parser = argparse.ArgumentParser(description="the runner of a workspace beside the same work in one process")
    add_parts_option(parser, PARTS)
    arguments = parser.parse_args()
    rows: list[Row] = []
    with run_folder("fleetwright-bench-") as folder, WorkspaceStage(folder) as stage:
        for name in arguments.parts:
            rows += getattr(measures, name)(stage)
    tell("workspace", rows, facts={"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts})


if __name__ == "__main__":
    main()
