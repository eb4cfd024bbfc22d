"""`fleetwright-agent probe …`: runs one look and prints what it saw as one line of JSON, the last of its log.

A new look is a module with `declare` and a line in `LOOKS`. Refuses: reports beyond 64 KiB, which nobody would read.
"""

import argparse
import asyncio
import json
import sys
from typing import Final

from fleetwright_agent.commands.probe import agent, mcp, skill
from fleetwright_agent.config.mounted_files import ConfigurationError
from fleetwright_agent.telemetry.logs import configure

REPORT_LIMIT: Final = 64 * 1024
LOOKS: Final = (agent, mcp, skill)


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    probe = commands.add_parser("probe", help="look at one thing, report, end")
    looks = probe.add_subparsers(dest="look", required=True)
    for look in LOOKS:
        look.declare(looks)
    probe.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError, Unavailable: there is nothing good to report."""
    configure("warning", stream=sys.stderr)
    report = json.dumps(asyncio.run(options.look_at(options)), separators=(",", ":"))
    if len(report.encode()) >= REPORT_LIMIT:
        raise ConfigurationError(f"the report is longer than {REPORT_LIMIT} bytes")
    sys.stdout.write(f"{report}\n")
