"""`fleetwright-agent audit verify`: follows the chain of the audit trail that lies in the memory volume.

Prints what it found as one line of JSON, and ends with 2 where the chain is broken. That lines were cut off at the end
it cannot see by itself: the hash that `/status` told last has to be the one it prints.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from fleetwright_agent.layout import Layout
from fleetwright_agent.mounted import ConfigurationError
from fleetwright_agent.security.audit_files import verify
from fleetwright_agent.trail import FOLDER


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    audit = commands.add_parser("audit", help="look at the audit trail")
    looks = audit.add_subparsers(dest="look", required=True)
    look = looks.add_parser("verify", help="whether a line was altered or taken out")
    look.add_argument("--root", type=Path, default=Path("/"), help="where the memory volume lies below (default: /)")
    look.set_defaults(run=run)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError: the chain is broken, or cannot be read."""
    folder = Layout(root=options.root).memory / FOLDER
    try:
        verdict = verify(folder)
    except OSError as error:
        raise ConfigurationError(f"the audit trail cannot be read: {error.strerror}") from error
    sys.stdout.write(json.dumps(asdict(verdict)) + "\n")
    if verdict.broken:
        raise ConfigurationError(f"the audit trail is broken: {verdict.broken[0]}")
