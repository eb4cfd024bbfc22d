"""Downloads the files below one path of a git commit over HTTP, and writes them as plain files.

If the server allows it, only this commit is fetched, without its history. No git program or hook is run. Symbolic links
and submodules are rejected, because a skill cannot contain them.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from dulwich.errors import GitProtocolError, HangupException
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.repo import Repo

from fleetwright_agent.commands.fetch.folder import MOST_BYTES, MOST_FILES
from fleetwright_agent.commands.fetch.git_server import (
    GitServer,
    explain_errors,
    git_client,
    raise_network_error,
    retry_unreachable,
)
from fleetwright_agent.commands.fetch.memory_limit import run_within_memory
from fleetwright_agent.config.mounted_files import ConfigurationError, UnusableContent

_PLAIN: Final = (0o100644, 0o100755, 0o100664)


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    server: GitServer
    commit: str
    path: str


def fetch(source: GitSource, into: Path, *, patience: float) -> None:
    """Download a commit's files. Retry an unreachable server for `patience` seconds.

    Raises:
        ConfigurationError: The commit does not exist, the server rejects the credentials, or the repository is too
            large.
        UnusableContent: The commit has no such folder, or the folder is no skill.
        SourceUnavailable: The server cannot be reached, its certificate is not trusted, or it fails.
    """

    def attempt() -> None:
        with tempfile.TemporaryDirectory() as place:
            run_within_memory(lambda: _fetch_files(source, Path(place), into))

    retry_unreachable(attempt, source.server, patience=patience)


def _fetch_files(source: GitSource, place: Path, into: Path) -> None:
    with Repo.init_bare(str(place)) as repo:
        _download(source, repo)
        _write(_tree(source, repo), repo, into)


def _download(source: GitSource, repo: Repo) -> None:
    with explain_errors(source.server):
        try:
            _fetch(source, repo, lambda _refs, **_: [source.commit.encode()], depth=1)
        except (GitProtocolError, HangupException) as error:
            raise_network_error(source.server, error)
            # A server may refuse a commit that is not the tip of a branch or tag. Then fetch the whole history.
            _fetch(source, repo, None, depth=None)


def _fetch(source: GitSource, repo: Repo, wants: Callable[..., Any] | None, *, depth: int | None) -> None:
    client = git_client(source.server)
    client.fetch(source.server.path, repo, determine_wants=wants, depth=depth)


def _tree(source: GitSource, repo: Repo) -> Tree:
    try:
        commit = repo.object_store[ObjectID(source.commit.encode())]
    except KeyError:
        raise ConfigurationError(f"{source.server.url} has no commit {source.commit}") from None
    if not isinstance(commit, Commit):
        raise UnusableContent(f"{source.commit} is not a commit")
    tree = repo.object_store[commit.tree]
    for step in (part for part in source.path.split("/") if part):
        try:
            tree = repo.object_store[tree[step.encode()][1]] if isinstance(tree, Tree) else commit
        except KeyError:
            tree = commit
    if not isinstance(tree, Tree):
        raise UnusableContent(f"commit {source.commit} has no folder {source.path!r}")
    return tree


def _write(tree: Tree, repo: Repo, into: Path) -> None:
    size = 0
    for number, entry in enumerate(iter_tree_contents(repo.object_store, tree.id), start=1):
        path = entry.path.decode(errors="replace")
        if entry.mode not in _PLAIN:
            raise UnusableContent(f"{path!r} is a link or a submodule; a skill contains only files and folders")
        target = into / path
        if ".." in Path(path).parts or not target.resolve().is_relative_to(into.resolve()):
            raise UnusableContent(f"{path!r} is outside the skill's folder")
        blob = repo.object_store[entry.sha]
        if not isinstance(blob, Blob):
            raise UnusableContent(f"{path!r} is not a file")
        size += len(blob.data)
        if number > MOST_FILES or size > MOST_BYTES:
            raise UnusableContent(f"a skill has at most {MOST_FILES} files of {MOST_BYTES} bytes together")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(blob.data)
