"""Takes the power to run programs from the repositories that commands have made in the workspace.

Programs outside the sandbox run git in the workspace: the user, an editor, a shell prompt. Git then reads the
repository at hand, and those of its submodules. `fleetwright dev` mounts the configuration and the hooks of the
repositories that exist at its start read-only. No mount can protect a repository that a command makes later. So this
guard looks for such repositories after each command. It disables hooks and settings that may name programs: it renames
the files, so that nothing is lost. It removes links that lead git out of the workspace.

A folder whose entries have not changed is not listed again. The time of its last change (`ctime`) tells, which no
command can set.
"""

from __future__ import annotations

import os
import re
import stat
import threading
import time
from collections.abc import Collection, Iterator
from typing import NamedTuple

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.git_settings import keep_harmless_settings
from fleetwright_workspace.files.root import Location, WorkspaceRoot

INSIDE_ROOT = "/workspace"
"""The path of the root in the sandbox, with which git writes the links of further working trees."""
_CONFIGURATIONS = ("config", "config.worktree")
_POINTERS = (".git", "commondir")
_LARGEST_CONFIGURATION = 1 << 20
_LONGEST_PATH = 4095
"""Linux accepts no longer path, so git cannot open one."""
_TICK_NS = 50_000_000
"""Two changes within this time may have the same `ctime`."""
_DISARMED = ".disarmed"
_HOOK = re.compile(r"[a-z0-9-]+")
"""Hooks have no suffix. The samples of `git init` have one, and so have source files in a folder named `hooks`."""


class _Listing(NamedTuple):
    """The entries of a folder that matter to git, and when they were read."""

    inode: int
    changed_ns: int
    is_settled: bool
    """False if a further change of the folder could have the same time."""
    folders: tuple[str, ...]
    """Paths below the root."""
    others: tuple[str, ...]
    """Pointers, configurations and symbolic links."""
    is_repository: bool


class RepositoryGuard:
    def __init__(self, root: WorkspaceRoot, trusted: Collection[str]) -> None:
        """Args: `trusted` has the paths of the files and folders of git that stay as they are, such as `.git/hooks`."""
        self._root = root
        self._trusted = frozenset(trusted)
        self._trusted_folders = frozenset(path.rpartition("/")[0] for path in trusted if path.endswith("/config"))
        self._listings: dict[str, _Listing] = {}
        self._lock = threading.Lock()
        self._kept_links: frozenset[str] = frozenset()

    def keep_existing_links(self) -> None:
        """Leave the symbolic links alone that trusted repositories have now. The user may share objects by a link."""
        with self._lock:
            self._kept_links = frozenset(
                _joined(path, name)
                for path, listing, _ in self._walk()
                if self._is_trusted(path)
                for name in listing.others
            )

    def find_repositories(self) -> list[str]:
        """Return the paths of all repositories and `.git` files below the root."""
        with self._lock:
            found: list[str] = []
            for path, listing, _ in self._walk():
                if listing.is_repository:
                    found.append(path)
                found += [_joined(path, ".git") for name in listing.others if name == ".git"]
            return found

    def disarm(self) -> list[str]:
        """Disarm the repositories that are not trusted. Return the paths of the files that were changed or removed."""
        with self._lock:
            changed: list[str] = []
            for path, listing, inside_git in self._walk():
                if listing.is_repository or (inside_git and listing.others) or ".git" in listing.others:
                    changed += self._disarm_folder(path, listing, inside_git=inside_git)
            return changed

    def _is_trusted(self, path: str) -> bool:
        return any(path == folder or path.startswith(f"{folder}/") for folder in self._trusted_folders)

    def _walk(self) -> Iterator[tuple[str, _Listing, bool]]:
        """Yield each folder, its listing, and whether it lies in a repository. Symbolic links are not followed."""
        fresh: dict[str, _Listing] = {}
        pending = [(".", False)]
        while pending:
            path, inside_git = pending.pop()
            listing = self._list(path)
            if listing is None:
                continue
            fresh[path] = listing
            inside_git = inside_git or (listing.is_repository and path != ".")
            pending += [(folder, inside_git) for folder in listing.folders]
            yield path, listing, inside_git or listing.is_repository
        self._listings = fresh

    def _list(self, path: str) -> _Listing | None:
        try:
            status = os.stat(path, dir_fd=self._root.descriptor, follow_symlinks=False)
        except (OSError, ValueError):
            return None
        known = self._listings.get(path)
        if (
            known is not None
            and known.is_settled
            and known.changed_ns == status.st_ctime_ns
            and known.inode == status.st_ino
        ):
            return known
        if stat.S_IMODE(status.st_mode) & stat.S_IRWXU != stat.S_IRWXU:
            _make_accessible(self._root, path)
        try:
            with self._root.folder(_location(path)) as folder:
                return _read_listing(folder, path)
        except (CallError, OSError):
            return None

    def _disarm_folder(self, path: str, listing: _Listing, *, inside_git: bool) -> list[str]:
        changed: list[str] = []
        try:
            with self._root.folder(_location(path)) as folder:
                for name in listing.others:
                    entry = _joined(path, name)
                    if self._leads_out(folder, entry, name, inside_git=inside_git) and _unlink(folder, name):
                        changed.append(entry)
                if listing.is_repository and _joined(path, "hooks") not in self._trusted:
                    changed += [_joined(path, f"hooks/{name}") for name in _disable_hooks(folder)]
                for name in _CONFIGURATIONS if listing.is_repository else ():
                    if _joined(path, name) not in self._trusted and _reduce_configuration(folder, name):
                        changed.append(_joined(path, name))
        except (CallError, OSError):
            return changed
        return changed

    def _leads_out(self, folder: int, path: str, name: str, *, inside_git: bool) -> bool:
        """Return whether an entry leads git out of the workspace, or away from the settings of a trusted repository."""
        if path in self._trusted or path in self._kept_links:
            return False
        target = _read_target(folder, name)
        if target is None or not (inside_git or name == ".git"):
            return False
        if target == INSIDE_ROOT or target.startswith(f"{INSIDE_ROOT}/"):
            target = self._root.path + target[len(INSIDE_ROOT) :]
        real = os.path.realpath(os.path.join(self._root.path, os.path.dirname(path), target))
        if name == "commondir" and path.rpartition("/")[0] in self._trusted_folders:
            return real not in {os.path.join(self._root.path, each) for each in self._trusted_folders}
        return real != self._root.path and not real.startswith(f"{self._root.path}/")


def _read_listing(folder: int, path: str) -> _Listing:
    status = os.fstat(folder)
    read_ns = time.time_ns()
    folders: list[str] = []
    others: list[str] = []
    names: set[str] = set()
    with os.scandir(folder) as entries:
        for entry in entries:
            names.add(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append(_joined(path, entry.name))
            elif entry.name in _POINTERS or entry.is_symlink():
                others.append(entry.name)
    # Git accepts these as the folder of a repository, or as the common folder of several working trees.
    is_common = {"objects", "refs"} <= names and not names.isdisjoint({"HEAD", "hooks", *_CONFIGURATIONS})
    is_repository = path.rpartition("/")[2] == ".git" or is_common or {"HEAD", "commondir"} <= names
    is_settled = status.st_ctime_ns < read_ns - _TICK_NS
    kept = tuple(each for each in folders if len(each) <= _LONGEST_PATH)
    return _Listing(status.st_ino, status.st_ctime_ns, is_settled, kept, tuple(others), is_repository)


def _read_target(folder: int, name: str) -> str | None:
    """Return the path to which a symbolic link, a `.git` file or a `commondir` leads; None if it is neither."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            return os.readlink(name, dir_fd=folder)
        if not stat.S_ISREG(status.st_mode) or name not in _POINTERS:
            return None
        text = _read(folder, name)
    except OSError:
        return None
    path = text.rstrip("\r\n")
    return path[len("gitdir:") :].lstrip() if name == ".git" and path.startswith("gitdir:") else path


def _reduce_configuration(folder: int, name: str) -> bool:
    """Keep the harmless settings of a configuration. Return whether it had others."""
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    if stat.S_ISDIR(status.st_mode):
        return False
    is_readable = stat.S_ISREG(status.st_mode) and status.st_mode & stat.S_IRUSR
    if not is_readable or status.st_size > _LARGEST_CONFIGURATION:
        return _set_aside(folder, name)
    text = _read(folder, name)
    kept = keep_harmless_settings(text)
    if kept == text:
        return False
    _set_aside(folder, name)
    descriptor = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(kept)
    return True


def _disable_hooks(folder: int) -> list[str]:
    """Rename the hooks of a repository, and return their names."""
    try:
        hooks = os.open("hooks", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
    except OSError:
        return ["."] if _unlink(folder, "hooks") else []
    try:
        return [name for name in os.listdir(hooks) if _HOOK.fullmatch(name) and _disable_hook(hooks, name)]
    finally:
        os.close(hooks)


def _disable_hook(hooks: int, name: str) -> bool:
    mode = os.stat(name, dir_fd=hooks, follow_symlinks=False).st_mode
    is_program = stat.S_ISLNK(mode) or (stat.S_ISREG(mode) and mode & 0o111)
    return bool(is_program) and _set_aside(hooks, name)


def _read(folder: int, name: str) -> str:
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    with os.fdopen(descriptor, encoding="utf-8", errors="surrogateescape", newline="") as file:
        return file.read(_LARGEST_CONFIGURATION)


def _set_aside(folder: int, name: str) -> bool:
    """Rename a file to a name that git does not know. Remove it if something else has that name."""
    try:
        os.rename(name, f"{name}{_DISARMED}", src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        return _unlink(folder, name)
    return True


def _unlink(folder: int, name: str) -> bool:
    try:
        os.unlink(name, dir_fd=folder)
    except OSError:
        return False
    return True


def _make_accessible(root: WorkspaceRoot, path: str) -> None:
    """Give the owner all rights to a folder. A command may have taken them to hide what is in the folder."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_DIRECTORY, dir_fd=root.descriptor)
    except OSError:
        return
    try:
        os.chmod(f"/proc/self/fd/{descriptor}", stat.S_IRWXU)
    except OSError:
        pass
    finally:
        os.close(descriptor)


def _location(path: str) -> Location:
    return Location(() if path == "." else tuple(path.split("/")), ())


def _joined(folder: str, name: str) -> str:
    return name if folder == "." else f"{folder}/{name}"
