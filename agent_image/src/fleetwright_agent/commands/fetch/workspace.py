"""Clones a git repository into a workspace, once and never over existing files.

The clone is made in a folder of its own and then moved into place, `.git` first. After an interruption, the next run
clones again or finishes the move. No git program or hook runs, and no credential is stored in `.git`. Submodules stay
empty folders. A symbolic link that leads out of the workspace is an error.
"""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISLNK
from typing import Any, Final

from dulwich.object_store import iter_tree_contents
from dulwich.objects import Blob, Commit, ObjectID, Tag
from dulwich.porcelain import reset
from dulwich.refs import HEADREF, Ref
from dulwich.repo import Repo

from fleetwright_agent.commands.fetch.git_server import GitServer, explain_errors, git_client, retry_unreachable
from fleetwright_agent.commands.fetch.memory_limit import run_within_memory
from fleetwright_agent.config.mounted_files import ConfigurationError, UnusableContent

_STAGING: Final = ".fleetwright-clone"
_DIGITS: Final = 40
_MOST_LINKS: Final = 40
"""Linux follows at most this many links in one path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkspaceSource:
    server: GitServer
    ref: str
    """A branch, a tag or a commit; empty for the branch that the server names as its HEAD."""


def clone(source: WorkspaceSource, into: Path, *, patience: float) -> str:
    """Clone the repository, and return the commit that is checked out; empty if the folder has other files.

    Raises:
        UnusableContent: A link of the commit leads out.
        ConfigurationError: The reference does not exist, the server rejects the credentials, or the repository needs
            more memory than the container has.
        SourceUnavailable: The server cannot be reached, its certificate is not trusted, or it fails.
    """
    staging = into / _STAGING
    if not (into / ".git").exists():
        if any(each.name != _STAGING for each in into.iterdir()):
            return ""
        try:
            retry_unreachable(
                lambda: run_within_memory(lambda: _clone(source, staging)), source.server, patience=patience
            )
        except BaseException:
            shutil.rmtree(staging, ignore_errors=True)
            raise
    _move(staging, into)
    with Repo(str(into)) as repo:
        return repo.head().decode()


def _clone(source: WorkspaceSource, staging: Path) -> None:
    shutil.rmtree(staging, ignore_errors=True)
    staging.mkdir()
    with Repo.init(str(staging)) as repo:
        with explain_errors(source.server):
            client = git_client(source.server)
            fetched = client.fetch(source.server.path, repo, determine_wants=_wants(source.ref))
        refs = {name: sha for name, sha in fetched.refs.items() if sha is not None}
        name, tip = _tip(source, repo, refs, fetched.symrefs)
        _refuse_outward_links(repo, tip)
        for ref, sha in refs.items():
            if ref.startswith(b"refs/heads/"):
                repo.refs[Ref(b"refs/remotes/origin/" + ref.removeprefix(b"refs/heads/"))] = sha
            elif ref.startswith(b"refs/tags/") and not ref.endswith(b"^{}"):
                repo.refs[ref] = sha
        if name.startswith(b"refs/heads/"):
            repo.refs.set_symbolic_ref(HEADREF, name)
            repo.refs[name] = tip.id
        else:
            repo.refs.remove_if_equals(HEADREF, None)
            repo.refs[HEADREF] = tip.id
        config = repo.get_config()
        config.set((b"remote", b"origin"), b"url", source.server.url.encode())
        config.set((b"remote", b"origin"), b"fetch", b"+refs/heads/*:refs/remotes/origin/*")
        config.write_to_path()
        reset(repo, "hard", tip.id)


def _wants(ref: str) -> Callable[..., Any]:
    """Return the function that chooses what is fetched: all branches and tags, and the commit that `ref` may name."""

    def wants(refs: dict[Ref, ObjectID], **_: Any) -> list[ObjectID]:
        found = [sha for name, sha in refs.items() if name.startswith((b"refs/heads/", b"refs/tags/"))]
        return list(dict.fromkeys([*found, *([ObjectID(ref.encode())] if _is_hash(ref) else [])]))

    return wants


def _tip(
    source: WorkspaceSource, repo: Repo, refs: dict[Ref, ObjectID], symbolic: dict[Ref, Ref]
) -> tuple[Ref, Commit]:
    """Return the reference and the commit that is checked out."""
    head = symbolic.get(HEADREF, HEADREF)
    wanted = source.ref.encode()
    names = [Ref(b"refs/heads/" + wanted), Ref(b"refs/tags/" + wanted)] if wanted else [Ref(head)]
    name = next((each for each in names if each in refs), None)
    sha = refs[name] if name else ObjectID(wanted) if _is_hash(source.ref) else None
    found = repo.object_store[sha] if sha is not None and sha in repo.object_store else None
    while isinstance(found, Tag):
        found = repo.object_store[found.object[1]]
    if not isinstance(found, Commit):
        what = f"no branch, tag or commit {source.ref!r}" if source.ref else "no commits"
        raise ConfigurationError(f"{source.server.url} has {what}; check workspace.source.git.ref")
    return name or HEADREF, found


def _refuse_outward_links(repo: Repo, commit: Commit) -> None:
    links: dict[tuple[str, ...], str] = {}
    for entry in iter_tree_contents(repo.object_store, commit.tree):
        if S_ISLNK(entry.mode):
            blob = repo.object_store[entry.sha]
            target = blob.data.decode(errors="replace") if isinstance(blob, Blob) else "/"
            links[tuple(entry.path.decode(errors="replace").split("/"))] = target
    for path, target in links.items():
        if _leads_out(path, links):
            name = "/".join(path)
            raise UnusableContent(f"the link {name!r} of the repository leads out of the workspace, to {target!r}")


def _leads_out(path: tuple[str, ...], links: Mapping[tuple[str, ...], str]) -> bool:
    """Return whether a path leaves the root. Links are resolved one component after the other, as the kernel does.

    A path with too many links, such as a loop, counts as one that leaves. The kernel refuses it too.
    """
    pending = list(reversed(path))
    place: list[str] = []
    followed = 0
    while pending:
        part = pending.pop()
        if part in ("", "."):
            continue
        if part == "..":
            if not place:
                return True
            place.pop()
            continue
        target = links.get((*place, part))
        if target is None:
            place.append(part)
            continue
        followed += 1
        if target.startswith("/") or followed > _MOST_LINKS:
            return True
        pending += reversed(target.split("/"))
    return False


def _move(staging: Path, into: Path) -> None:
    """Move what is not moved yet. `.git` is moved first, so that its presence says that the clone is complete."""
    if not staging.exists():
        return
    for entry in sorted(staging.iterdir(), key=lambda path: path.name != ".git"):
        entry.rename(into / entry.name)
    staging.rmdir()


def _is_hash(ref: str) -> bool:
    return len(ref) == _DIGITS and all(digit in "0123456789abcdef" for digit in ref)
