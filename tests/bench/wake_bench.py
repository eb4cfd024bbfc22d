"""`make bench-wake`: wakes, approvals and withdrawn permissions on the local cluster, through the gateway.

    python -m tests.bench.wake_bench [--parts wake,approvals,withdrawal] [--times 30]

It brings up the cluster of `make up` if there is none, and leaves it there. It prints the figures and exits with 0,
even if they miss their targets. If a part fails, the benchmark ends with its error.
"""

import argparse
import os

from tests.bench.parts import add_parts_option
from tests.bench.table import Row, tell
from tests.bench.wake.gateway_client import team_on_cluster
from tests.bench.wake.measures import PARTS


def main() -> None:
    parser = argparse.ArgumentParser(description="wakes, approvals and withdrawn permissions on the local cluster")
    add_parts_option(parser, PARTS)
    parser.add_argument("--times", type=int, default=30, help="the number of repetitions of each part")
    arguments = parser.parse_args()
    if arguments.times < 2:
        parser.error("--times is at least 2")
    rows: list[Row] = []
    with team_on_cluster() as team:
        for name in arguments.parts:
            rows += PARTS[name](team, times=arguments.times)
    facts = {"cores": os.cpu_count(), "load": os.getloadavg()[0], "parts": arguments.parts, "times": arguments.times}
    tell("wake", rows, facts=facts)


if __name__ == "__main__":
    main()
