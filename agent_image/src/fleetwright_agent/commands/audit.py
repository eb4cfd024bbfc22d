"""`fleetwright-agent audit verify`: verifies the audit trail in the memory volume.

The command prints the result as one line of JSON. Its exit code is that of the first finding: 10 broken chain, 11
altered content, 12 rewritten line, 13 missing beginning, 14 unrecorded erasure, 15 missing end. The command detects a
truncated end only if `--expect LINES:HASH` states an earlier end of the trail, such as the Agent's `status.auditTrail`.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Final

from fleetwright_agent.audit.factory import FOLDER
from fleetwright_agent.audit.verification import verify
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.config.mounted_files import ConfigurationError

_HASH: Final = 64
"""Hexadecimal digits of SHA-256."""


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    audit = commands.add_parser("audit", help="inspect the audit trail")
    looks = audit.add_subparsers(dest="look", required=True)
    look = looks.add_parser("verify", help="check that no line was altered or removed")
    look.add_argument("--root", type=Path, default=Path("/"), help="root folder of the memory volume (default: /)")
    look.add_argument(
        "--expect", type=_head, metavar="LINES:HASH", help="an end of the trail that was recorded elsewhere earlier"
    )
    look.set_defaults(run=run)


def _head(text: str) -> tuple[int, str]:
    lines, _, digest = text.partition(":")
    if not (lines.isascii() and lines.isdigit() and len(digest) == _HASH and int(lines) > 0):
        raise argparse.ArgumentTypeError(f"{text!r} is not LINES:HASH, such as 128:1f8b… with 64 digits")
    return int(lines), digest


def run(options: argparse.Namespace) -> None:
    """Raises:
    ConfigurationError: The trail cannot be read.
    SystemExit: The trail is broken; the exit code names the first finding.
    """
    folder = Layout(root=options.root).memory / FOLDER
    try:
        verdict = verify(folder, expected=options.expect)
    except OSError as error:
        raise ConfigurationError(f"the audit trail cannot be read: {error.strerror}") from error
    broken = [{"kind": finding.kind.word, "message": finding.message} for finding in verdict.broken]
    sys.stdout.write(json.dumps({**asdict(verdict), "broken": broken}) + "\n")
    if verdict.broken:
        first = verdict.broken[0]
        sys.stderr.write(f"fleetwright-agent: the audit trail is broken: {first.message}\n")
        raise SystemExit(first.kind.exit_code)
