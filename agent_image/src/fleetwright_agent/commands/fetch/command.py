"""`fleetwright-agent fetch`: downloads the files of a skill, or clones the source of a workspace.

The digest of a skill's files is verified.
"""

import argparse
import json
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from fleetwright_agent.commands.fetch.folder import read_folder
from fleetwright_agent.config.mounted_files import ConfigurationError

if TYPE_CHECKING:
    from fleetwright_agent.commands.fetch.git_server import GitServer


def declare(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    fetch = commands.add_parser("fetch", help="download files into a folder")
    things = fetch.add_subparsers(dest="thing", required=True)
    skill = things.add_parser("skill", help="download a skill from git")
    add_source(skill, required=True)
    skill.add_argument("--into", type=Path, required=True, help="an empty folder")
    skill.add_argument("--digest", required=True, help="expected digest, as `probe skill` reported it")
    skill.set_defaults(run=run)
    workspace = things.add_parser("workspace", help="clone a git repository into an empty workspace")
    _add_server(workspace, required=True)
    workspace.add_argument("--ref", default="", help="a branch, a tag or a commit (default: the server's HEAD)")
    workspace.add_argument("--into", type=Path, required=True, help="the folder of the workspace")
    workspace.set_defaults(run=run_workspace)


def add_source(parser: argparse.ArgumentParser, *, required: bool) -> None:
    _add_server(parser, required=required)
    parser.add_argument("--commit", required=required, help="40 hexadecimal digits")
    parser.add_argument("--path", default="", help="the skill's folder in the repository (default: the root)")


def _add_server(parser: argparse.ArgumentParser, *, required: bool) -> None:
    parser.add_argument("--url", required=required, help="http or https address of a git repository")
    parser.add_argument("--credentials", type=Path, help="a folder with the file token, or username and password")
    parser.add_argument("--ca-file", type=Path, help="a file with additional certificate authorities in PEM")
    parser.add_argument("--proxy-url", help="http or https address of an HTTP proxy (default: none)")
    parser.add_argument("--patience", type=float, default=20.0, help="seconds in which a failed connection is retried")


def fetch_into(options: argparse.Namespace, folder: Path) -> None:
    """Raises: ConfigurationError, SourceUnavailable."""
    from fleetwright_agent.commands.fetch.git import GitSource, fetch

    source = GitSource(server=_build_git_server(options), commit=options.commit, path=options.path)
    fetch(source, folder, patience=options.patience)


def run(options: argparse.Namespace) -> None:
    """Raises: ConfigurationError, SourceUnavailable."""
    if any(options.into.iterdir()):
        if _is_whole(options.into, options.digest):
            return
        _empty(options.into)
    fetch_into(options, options.into)
    found = read_folder(options.into).digest
    if found != options.digest:
        raise ConfigurationError(f"the files have the digest {found}, but {options.digest} is expected")


def run_workspace(options: argparse.Namespace) -> None:
    """Write the commit to standard output as one JSON document. Raises: ConfigurationError, SourceUnavailable."""
    from fleetwright_agent.commands.fetch.workspace import WorkspaceSource, clone

    source = WorkspaceSource(server=_build_git_server(options), ref=options.ref)
    commit = clone(source, options.into, patience=options.patience)
    sys.stdout.write(json.dumps({"commit": commit}) + "\n")


def _build_git_server(options: argparse.Namespace) -> "GitServer":
    from fleetwright_agent.commands.fetch.git_server import GitServer

    return GitServer(
        url=options.url, credentials=options.credentials, ca_file=options.ca_file, proxy_url=options.proxy_url
    )


def _is_whole(folder: Path, digest: str) -> bool:
    """Return whether the files are complete. A previous container may have written all or only some of them."""
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
