"""`probe skill`: reports the content of a skill in git or in a mounted image, for the operator to validate and pin."""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from fleetwright_agent.commands.fetch.command import add_source, fetch_into
from fleetwright_agent.commands.fetch.folder import read_folder
from fleetwright_agent.config.mounted_files import ConfigurationError


def declare(looks: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    look = looks.add_parser("skill", help="report the content of a skill in git or in a folder")
    look.add_argument("--folder", type=Path, help="the folder with its files")
    add_source(look, required=False)
    look.set_defaults(look_at=probe_skill)


async def probe_skill(options: argparse.Namespace) -> dict[str, Any]:
    """Raises: ConfigurationError, SourceUnavailable."""
    if options.folder:
        return _report(options.folder)
    if not (options.url and options.commit):
        raise ConfigurationError("probe skill needs --folder, or --url and --commit")
    with tempfile.TemporaryDirectory() as place:
        fetch_into(options, Path(place))
        return _report(Path(place))


def _report(folder: Path) -> dict[str, Any]:
    found = read_folder(folder)
    return {"digest": found.digest, "head": found.head, "files": list(found.files)}
