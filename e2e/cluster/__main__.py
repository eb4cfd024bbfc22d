"""The command line: `python -m e2e.cluster <command>`."""

import argparse
import sys

from e2e.cluster import binaries
from e2e.cluster.parts import PARTS
from e2e.cluster.progress import ClusterError, Progress


def _binaries(arguments: argparse.Namespace) -> None:
    progress = Progress()
    for program, path in binaries.ensure(arguments.names or PARTS, progress).items():
        print(f"{program}\t{path}")
    binaries.tidy(progress)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(required=True)
    command = commands.add_parser("binaries", help="find or build the cluster's programs, and print where they are")
    command.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(PARTS)}; all by default")
    command.set_defaults(run=_binaries)
    arguments = parser.parse_args()
    try:
        arguments.run(arguments)
    except ClusterError as refused:
        print(f"cluster: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
