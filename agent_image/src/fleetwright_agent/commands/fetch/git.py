"""Downloads the files below one path of a git commit over HTTP, and writes them as plain files.

If the server allows it, only this commit is fetched, without its history. No git program or hook is run. Symbolic links
and submodules are rejected, because a skill cannot contain them. Error messages contain no credentials.
"""

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import urllib3
from dulwich.client import HttpGitClient, HTTPUnauthorized, default_urllib3_manager
from dulwich.errors import GitProtocolError, HangupException, NotGitRepository
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.repo import Repo
from urllib3.exceptions import HTTPError

from fleetwright_agent.commands.fetch.folder import MOST_BYTES, MOST_FILES
from fleetwright_agent.commands.fetch.memory_limit import limited_memory
from fleetwright_agent.config.mounted_files import ConfigurationError, SourceUnavailable, UnusableContent

_TIMEOUT_SECONDS: Final = 30.0
_PAUSE_SECONDS: Final = 1.0
_PLAIN: Final = (0o100644, 0o100755, 0o100664)


class UnreachableServer(Exception):  # noqa: N818 - describes the server
    """The git server could not be reached. A later attempt may succeed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GitSource:
    url: str
    commit: str
    path: str
    credentials: Path | None
    """A folder with the files token, or username and password."""


def fetch(source: GitSource, into: Path, *, patience: float) -> None:
    """Download a commit's files. Retry an unreachable server for `patience` seconds.

    The network of a new pod may need some seconds until it works.

    Raises:
        ConfigurationError: The commit does not exist, or the server rejects the credentials.
        UnusableContent: The commit has no such folder, the folder is no skill, or the repository is too large.
        SourceUnavailable: The server cannot be reached, or fails.
    """

    def once() -> None:
        with limited_memory(), tempfile.TemporaryDirectory() as place, Repo.init_bare(place) as repo:
            _download(source, repo)
            _write(_tree(source, repo), repo, into)

    retried(once, source.url, patience=patience)


def retried(once: Callable[[], None], url: str, *, patience: float) -> None:
    """Call `once` again for `patience` seconds while it raises UnreachableServer.

    Raises: SourceUnavailable: The server was not reachable in that time.
    """
    started = time.monotonic()
    while True:
        try:
            once()
        except UnreachableServer as error:
            if time.monotonic() - started >= patience:
                raise SourceUnavailable(f"{url} cannot be reached") from error
        else:
            return
        time.sleep(_PAUSE_SECONDS)


def _download(source: GitSource, repo: Repo) -> None:
    with explained(source.url, has_credentials=source.credentials is not None):
        try:
            _fetch(source, repo, lambda _refs, **_: [source.commit.encode()], depth=1)
        except (GitProtocolError, HangupException) as error:
            _raise_unreachable(error)
            # A server may refuse a commit that is not the tip of a branch or tag. Then fetch the whole history.
            _fetch(source, repo, None, depth=None)


@contextmanager
def explained(url: str, *, has_credentials: bool) -> Iterator[None]:
    """Turn the errors of dulwich and of HTTP into errors of this program, which contain no credentials.

    Raises:
        ConfigurationError: The server rejects the credentials, or has no such repository.
        SourceUnavailable: The server does not answer as a git server.
        UnreachableServer: The server cannot be reached.
    """
    try:
        yield
    except HTTPUnauthorized:
        remedy = "check the Secret" if has_credentials else "name a Secret in source.git.secretRef"
        raise ConfigurationError(f"{url} requires authentication; {remedy}") from None
    except HTTPError as error:
        raise UnreachableServer from error  # dulwich wraps only some of the errors while it reads the response.
    except NotGitRepository:
        raise ConfigurationError(f"{url} is not a readable git repository") from None
    except (GitProtocolError, HangupException) as error:
        _raise_unreachable(error)
        raise SourceUnavailable(f"{url} does not answer as a git server: {type(error).__name__}") from error


def _raise_unreachable(error: Exception) -> None:
    """Raise `UnreachableServer` if the error's cause is a network error."""
    if isinstance(error.__cause__ or error.__context__, HTTPError):
        raise UnreachableServer from error


def _fetch(source: GitSource, repo: Repo, wants: Callable[..., Any] | None, *, depth: int | None) -> None:
    client = git_client(source.url, source.credentials)
    client.fetch(urlsplit(source.url).path, repo, determine_wants=wants, depth=depth)


def git_client(url: str, credentials: Path | None) -> HttpGitClient:
    """Return a client for the server of a repository, which follows no redirect to another origin.

    Raises: ConfigurationError: The folder has no credentials.
    """
    parts = urlsplit(url)
    name, password = _credentials(credentials)
    base = f"{parts.scheme}://{parts.netloc}"
    pool = default_urllib3_manager(
        None, base_url=base, timeout=_TIMEOUT_SECONDS, pool_manager_cls=_OneOrigin, proxy_manager_cls=_OneOriginByProxy
    )
    return HttpGitClient(
        base, username=name, password=password, timeout=_TIMEOUT_SECONDS, quiet=True, pool_manager=pool
    )


class _OneOrigin(urllib3.PoolManager):
    """A pool that follows redirects only within the origin of its first request (RFC 6454).

    The URL of a Skill must not cause the pod to send requests to another server, inside or outside the cluster.
    """

    _first: tuple[str | None, str | None, int | None] | None = None

    def urlopen(  # type: ignore[override] # the parent's stub leaves the keywords untyped
        self, method: str, url: str, redirect: bool = True, **keywords: Any
    ) -> urllib3.BaseHTTPResponse:
        """Raises: ConfigurationError: A redirect leads to another origin."""
        parts = urllib3.util.parse_url(url)
        origin = (parts.scheme, parts.host, parts.port)
        self._first = self._first or origin
        if origin != self._first:
            there = f"{parts.scheme}://{parts.netloc}"
            raise ConfigurationError(
                f"the git server redirects to another server, {there}; use its address in source.git.url"
            )
        return super().urlopen(method, url, redirect=redirect, **keywords)


class _OneOriginByProxy(_OneOrigin, urllib3.ProxyManager):
    """The same pool, for requests through the proxy that the environment variables name."""


def _credentials(folder: Path | None) -> tuple[str | None, str | None]:
    if folder is None:
        return None, None
    found = {file: (folder / file).read_text().strip() for file in _KEYS if (folder / file).is_file()}
    password = found.get("password") or found.get("token")
    if not password:
        raise ConfigurationError("the Secret of source.git.secretRef needs the key token, or username and password")
    return found.get("username", "git"), password


_KEYS: Final = ("username", "password", "token")


def _tree(source: GitSource, repo: Repo) -> Tree:
    try:
        commit = repo.object_store[ObjectID(source.commit.encode())]
    except KeyError:
        raise ConfigurationError(f"{source.url} has no commit {source.commit}") from None
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
