"""`fleetwright-agent fetch skill`: one commit's files into a folder, and only those that were looked at before."""

import argparse
import shutil
from pathlib import Path

from fleetwright_agent.commands.fetch.folder import read_folder
from fleetwright_agent.config.mounted_files import ConfigurationError


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    fetch = commands.add_parser("fetch", help="bring something into a folder, end")
    things = fetch.add_subparsers(dest="thing", required=True)
    skill = things.add_parser("skill", help="the files of a skill, from git")
    add_source(skill, required=True)
    skill.add_argument("--into", type=Path, required=True, help="an empty folder")
    skill.add_argument("--digest", required=True, help="of the files, as `probe skill` reported it")
    skill.set_defaults(run=run)


def add_source(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--url", required=required, help="http or https address of a git repository")
    parser.add_argument("--commit", required=required, help="40 hexadecimal digits")
    parser.add_argument("--path", default="", help="the skill's folder in it (default: its top)")
    parser.add_argument("--credentials", type=Path, help="a folder with the files token, or username and password")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds in which a refusal is tried again")


def fetch_into(options: argparse.Namespace, folder: Path) -> None:
    """Raises: ConfigurationError, Unavailable."""
    from fleetwright_agent.commands.fetch.git import Source, fetch

    source = Source(url=options.url, commit=options.commit, path=options.path, credentials=options.credentials)
    fetch(source, folder, patience=options.patience)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError, Unavailable."""
    if any(options.into.iterdir()):
        if _is_whole(options.into, options.digest):
            return
        _empty(options.into)
    fetch_into(options, options.into)
    found = read_folder(options.into).digest
    if found != options.digest:
        raise ConfigurationError(f"the files have the digest {found}, and {options.digest} was looked at")


def _is_whole(folder: Path, digest: str) -> bool:
    """A container that is started anew finds what the one before it wrote, which may be half."""
    try:
        return read_folder(folder).digest == digest
    except ConfigurationError:
        return False


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
