"""`make bench-wake`: wakes, approvals and withdrawn permissions on the local cluster, through the gateway.

    python -m tests.bench.wake_bench [--parts wake,approvals,withdrawal] [--times 30] [--smoke] [--json FILE]

It brings up the cluster of `make up` if there is none, and leaves it there. The smallest form brings up no cluster: it
exits with 77 if there is none. The figures do not change the exit status.
"""

import asyncio
import sys
from collections.abc import Sequence

from e2e.cluster.paths import STATE
from e2e.cluster.progress import CANNOT_RUN
from tests.bench.parts import make_parser
from tests.bench.report import Report
from tests.bench.wake.gateway_client import team_on_cluster
from tests.bench.wake.measures import PARTS


def main(words: Sequence[str] | None = None) -> int:
    parser = make_parser("wake", "wakes, approvals and withdrawn permissions on the local cluster", PARTS)
    parser.add_argument("--times", type=int, default=30, help="the number of repetitions of each part")
    arguments = parser.parse_args(words)
    if arguments.times < 2:
        parser.error("--times is at least 2")
    if arguments.smoke and not (STATE / "provider").exists():
        print("wake: cannot run: there is no cluster; make up creates one")
        return CANNOT_RUN
    report = Report("wake", parts=arguments.parts, smoke=arguments.smoke, times=arguments.times)
    options = {name: {"times": arguments.times} for name in PARTS}
    with team_on_cluster() as team:
        asyncio.run(report.run_parts(PARTS, arguments.parts, team, options=options))
    return report.finish(arguments.json)


if __name__ == "__main__":
    sys.exit(main())
