"""The files below a workspace that programs outside of it read without being asked, and their mounts in the sandbox.

The sandbox shows manifests, the files of git and the environment of `fleetwright` read-only, and the state folder with
its tokens as an empty folder. A mounted path cannot be renamed or removed from inside, but a folder above it can. So
every folder between the root and such a path is a mount too.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from fleetwright_cli.dev.manifests import InvalidFleet
from fleetwright_cli.dev.workspace.places import is_below

_WRITABLE: Final = "--bind"
_READ_ONLY: Final = "--ro-bind"


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedFiles:
    """Real paths below the root of one workspace."""

    read_only: tuple[Path, ...] = ()
    """Files and folders that commands may read."""
    hidden: tuple[Path, ...] = ()
    """Folders with secrets, which commands may not read."""
    kept: tuple[Path, ...] = ()
    """Folders that stay where they are: the roots of other workspaces."""
    git: tuple[Path, ...] = ()
    """Files and folders of git, which are read-only too."""

    def paths(self) -> tuple[Path, ...]:
        """Return the paths whose mounts must stay, in the order of `identities`."""
        return (*self.read_only, *self.git, *self.hidden)

    def identities(self) -> tuple[tuple[int, int] | None, ...]:
        """Return the device and inode of each read-only path. The kernel drops the mount of a path that is replaced."""
        return tuple(_identity(path) for path in self.paths())


def find_run_files(
    root: Path,
    *,
    manifests: Collection[Path],
    state: Collection[Path],
    programs: Collection[Path],
    others: Iterable[Path],
) -> TrustedFiles:
    """Return the files of a run that lie below a workspace.

    Args:
        root: The folder of the workspace.
        manifests: The folder of manifests, and the files to which its links lead.
        state: The folders with tokens.
        programs: The folders from which this program imports modules.
        others: The folders of other workspaces.

    Raises:
        InvalidFleet: The manifests or the state are the workspace itself.
    """
    for path, option in [(path, "-f") for path in manifests] + [(path, "--state") for path in state]:
        if path == root:
            raise InvalidFleet(
                f"{option}: {path} is the folder of a workspace itself, whose commands must be able to write; use a"
                " folder below it"
            )
    read_only = [path for path in (*manifests, *programs) if path != root and path.is_relative_to(root)]
    if root in programs:
        raise InvalidFleet(f"fleetwright is installed in the workspace {root}; install it outside, for example by pipx")
    return TrustedFiles(
        read_only=_outermost(read_only),
        hidden=_outermost(path for path in state if path.is_relative_to(root)),
        kept=tuple(path for path in others if path != root and path.is_relative_to(root)),
    )


def mount_options(root: Path, inside: str, trusted: TrustedFiles) -> list[str]:
    """Return the options of bubblewrap that follow the mount of the root. A mount covers those before it. Pure."""
    kinds: dict[Path, str] = dict.fromkeys(trusted.kept, _WRITABLE)
    for path in (*trusted.read_only, *trusted.git, *trusted.hidden, *trusted.kept):
        kinds |= {folder: _WRITABLE for folder in path.parents if root in folder.parents and folder not in kinds}
    kinds |= dict.fromkeys((*trusted.read_only, *trusted.git), _READ_ONLY) | dict.fromkeys(trusted.hidden, "")
    options: list[str] = []
    for path in sorted(kinds, key=lambda each: each.parts):
        if is_below(path.parent, trusted.hidden) or (kinds[path] and is_below(path.parent, trusted.read_only)):
            continue
        place = f"{inside}/{path.relative_to(root)}"
        options += [kinds[path], str(path), place] if kinds[path] else ["--tmpfs", place, "--remount-ro", place]
    return options


def runner_options(root: Path, trusted: TrustedFiles) -> list[str]:
    """Return the options of the runner. Its file tools refuse these paths, also without a sandbox. Pure."""
    read_only = [f"--read-only={path.relative_to(root)}" for path in (*trusted.read_only, *trusted.git)]
    return [*read_only, *(f"--hidden={path.relative_to(root)}" for path in trusted.hidden)]


def _outermost(paths: Iterable[Path]) -> tuple[Path, ...]:
    found: list[Path] = []
    for path in sorted(set(paths), key=lambda each: each.parts):
        if not is_below(path, found):
            found.append(path)
    return tuple(found)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.lstat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
