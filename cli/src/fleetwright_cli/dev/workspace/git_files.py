"""Finds the files of a workspace that git reads outside of the sandbox and that may name programs.

These are the configuration, the hooks and the `.git` file of each repository, the files that a configuration includes,
and the hooks and programs that it names. Git itself lists its settings, so this module reads them as git does.
"""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.workspace.places import resolve_place

_SECONDS: Final = 20.0
_PLACES: Final = frozenset({"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE"})
_INCLUDES: Final = re.compile(r"include(if\..*)?\.path", re.DOTALL)
_DATA: Final = re.compile(r"(user|author|committer|branch|remote|submodule|url|init|push|pull)\.", re.DOTALL)
"""Sections whose values are names and addresses."""
_WORKTREE: Final = re.compile(r"^\s*worktree\s*=", re.MULTILINE)
_SAME_FOLDER: Final = ".\n"
"""The content of `commondir` that makes a repository its own common folder, as it is without this file."""


@dataclass(frozen=True, slots=True)
class GitSetting:
    origin: Path
    """The file with the setting."""
    key: str
    value: str


def protect_repositories(
    root: Path, repositories: Iterable[str], git: str | None, environ: Mapping[str, str]
) -> "GitFiles":
    """Return the files of these repositories that must be read-only. Create those that git would use if they existed.

    Args:
        root: The folder of the workspace.
        repositories: Paths of repositories and `.git` files below the root.
        git: The path of git; None if this machine has none.
        environ: The variables for git.

    Raises:
        InvalidFleet: Git reads a file that cannot be protected, such as one behind a symbolic link.
    """
    found = GitFiles(root)
    for name in sorted(repositories):
        place = root / name
        if place.is_symlink():
            raise InvalidFleet(f"{place} is a symbolic link, which commands could replace; use a .git file instead")
        if place.is_dir():
            found.add_repository(place)
        else:
            found.add(place)
        if git is not None:
            worktree = place.parent if place.name == ".git" else place
            words = [git] if place.name == ".git" else [git, "--git-dir=."]
            for setting in _settings(words, worktree, environ):
                found.add_setting(setting, worktree)
    return found


class GitFiles:
    """The protected files of git in one workspace."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._paths: dict[Path, None] = {}

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(self._paths)

    def add(self, path: Path) -> None:
        """Protect a path below the root.

        Raises:
            InvalidFleet: A symbolic link leads to it.
        """
        if path.is_relative_to(self._root) or path.resolve().is_relative_to(self._root):
            self._paths[resolve_place(path, (self._root,), "git")] = None

    def add_repository(self, folder: Path) -> None:
        """Protect the configuration and the hooks of a repository, and the file that would lead to others."""
        if not (folder / "HEAD").exists():
            return  # The guard treats it as one that a command has made.
        has_configuration = (folder / "config").is_file()
        for name in ("config", "config.worktree", "hooks", "commondir"):
            path = folder / name
            if ".git" in folder.parts and has_configuration and not path.exists():
                self._create(path)
            if path.exists():
                self.add(path)
        self._add_linked_hooks(folder / "hooks")

    def _add_linked_hooks(self, hooks: Path) -> None:
        """Protect the files to which the links of a hooks folder lead."""
        for entry in hooks.iterdir() if hooks.is_dir() else ():
            if entry.is_symlink():
                self.add(Path(os.path.normpath(hooks / entry.readlink())))

    def add_setting(self, setting: GitSetting, worktree: Path) -> None:
        """Protect the file with the setting, and the files and hooks that it names."""
        if setting.origin != Path("/dev/null"):
            self.add(setting.origin)
        value = Path(setting.value).expanduser()
        if _INCLUDES.fullmatch(setting.key):
            path = Path(os.path.normpath(setting.origin.parent / value))
            if path.is_relative_to(self._root) and not path.exists():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.touch()
            self.add(path)
        elif setting.key == "core.hookspath":
            path = Path(os.path.normpath(worktree / value))
            # The hooks of husky start the scripts in the folder above.
            path = path.parent if path.name == "_" else path
            if path == self._root:
                raise InvalidFleet(f"core.hooksPath: {path} is the workspace itself; use a folder below it")
            if path.is_relative_to(self._root):
                path.mkdir(parents=True, exist_ok=True)
            self.add(path)
            self._add_linked_hooks(path)
        elif not _DATA.match(setting.key):
            for word in _words(setting.value):
                path = Path(os.path.normpath(worktree / word))
                if path.is_file():
                    self.add(path)

    def remove_created(self) -> None:
        """Remove the files that only the protection needed, also those that a crash has left."""
        for path in self._paths:
            with contextlib.suppress(OSError):
                if path.name == "commondir" and path.read_text() == _SAME_FOLDER:
                    path.unlink()

    def _create(self, path: Path) -> None:
        """Create a missing file or folder without effect, so that the sandbox can mount it."""
        settings = (path.parent / "config").read_text(errors="replace").lower()
        if path.name == "hooks":
            path.mkdir()
        elif path.name == "config.worktree" and "worktreeconfig" in settings:
            path.touch()
        elif path.name == "commondir" and not _WORKTREE.search(settings):
            # Git ignores `core.worktree` in a repository with a common folder.
            path.write_text(_SAME_FOLDER)


def _settings(git: Sequence[str], worktree: Path, environ: Mapping[str, str]) -> Iterator[GitSetting]:
    """Yield all settings that git uses in a working tree. Listing them runs no program."""
    command = [*git, "--no-pager", "config", "--list", "--show-origin", "--includes", "-z"]
    quiet = {name: value for name, value in environ.items() if name not in _PLACES}
    try:
        done = subprocess.run(command, cwd=worktree, env=quiet, capture_output=True, timeout=_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return
    words = done.stdout.decode(errors="surrogateescape").split("\0")
    for origin, setting in zip(words[::2], words[1::2], strict=False):
        kind, _, path = origin.partition(":")
        key, _, value = setting.partition("\n")
        yield GitSetting(Path(os.path.normpath(worktree / path)) if kind == "file" else Path("/dev/null"), key, value)


def _words(command: str) -> list[str]:
    """Return the words of a command that git would run, without the mark of an alias."""
    try:
        return shlex.split(command.removeprefix("!"))
    except ValueError:
        return command.split()
