"""`fleetwright-agent probe …`: runs one probe and prints its report as one line of JSON, the last line of the log.

A new probe is a module with `declare`, and an entry in `LOOKS`. Reports over 64 KiB are rejected, because the operator
does not read longer ones.
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
    probe = commands.add_parser("probe", help="examine one thing and print a report")
    looks = probe.add_subparsers(dest="look", required=True)
    for look in LOOKS:
        look.declare(looks)
    probe.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError, SourceUnavailable: the probe failed."""
    configure("warning", stream=sys.stderr)
    report = json.dumps(asyncio.run(options.look_at(options)), separators=(",", ":"))
    if len(report.encode()) >= REPORT_LIMIT:
        raise ConfigurationError(f"the report is longer than {REPORT_LIMIT} bytes")
    sys.stdout.write(f"{report}\n")
