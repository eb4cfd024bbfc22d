"""The command line: `python -m e2e.cluster <command>`. This module only selects the function to call."""

import argparse
import os
import sys

from e2e.cluster import commands
from e2e.cluster.image_list import IMAGES
from e2e.cluster.parts import OPTIONAL, PARTS
from e2e.cluster.progress import CANNOT_RUN, CannotRun, ClusterError, Progress


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster")
    every = parser.add_subparsers(dest="command", required=True)
    summaries = {
        "up": "a cluster, the images, the chart, the quickstart, and one message answered",
        "cluster": "a cluster alone",
        "down": "remove everything that `up` created",
        "status": "show what runs",
    }
    for name, summary in summaries.items():
        command = every.add_parser(name, help=summary)
        command.add_argument("--provider", choices=commands.PROVIDERS, help="default: CLUSTER, or what fits here")
    plane = every.add_parser("control-plane", help="a control plane without nodes, on loopback")
    plane.add_argument("action", choices=("up", "down"))
    programs = every.add_parser("binaries", help="find or build the cluster's programs, and print where they are")
    programs.add_argument(
        "names", nargs="*", metavar="name", help=f"of {', '.join((*PARTS, *OPTIONAL))}; default: what the tests need"
    )
    images = every.add_parser("images", help="build images, and print their compressed sizes")
    images.add_argument("--provider", choices=commands.PROVIDERS)
    images.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(IMAGES)}")
    return parser


def _run(arguments: argparse.Namespace, progress: Progress) -> None:
    match arguments.command:
        case "binaries":
            commands.find_programs(arguments.names, progress)
        case "control-plane" if arguments.action == "up":
            commands.control_plane_up(progress)
        case "control-plane":
            commands.control_plane_down(progress)
        case _:
            _run_on_provider(arguments, progress)


def _run_on_provider(arguments: argparse.Namespace, progress: Progress) -> None:
    name = commands.choose(arguments.provider, os.environ)
    match arguments.command:
        case "up":
            commands.up(name, progress)
        case "cluster":
            commands.cluster_up(name, progress)
        case "down":
            commands.down(name, progress)
        case "status":
            commands.status(name, progress)
        case "images":
            commands.images(name, arguments.names, progress)


def main() -> int:
    arguments = _parser().parse_args()
    try:
        _run(arguments, Progress())
    except KeyboardInterrupt:
        print("cluster: interrupted; run the same command to continue", file=sys.stderr)
        return 130
    except CannotRun as reason:
        print(reason, file=sys.stderr)
        return CANNOT_RUN
    except ClusterError as error:
        print(f"cluster: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
