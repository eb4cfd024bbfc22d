"""The root of the workspace: resolves paths, and opens files without following symbolic links.

A path is resolved to its real path first, and the real path must be below the root. Then every folder of the real path
is opened without following links, one below the other. So a command that replaces a folder by a symbolic link between
these steps cannot lead a read or a write out of the root.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from fleetwright_workspace.files.call_error import CallError

LONGEST_PATH = 4096
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# A pipe or a device must not block the runner when it is opened.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Location(NamedTuple):
    """A real path below the root."""

    parts: tuple[str, ...]
    requested: tuple[str, ...]
    """The components of the request, in which a symbolic link has its own name."""

    @property
    def path(self) -> str:
        return "/".join(self.parts) or "."

    @property
    def is_git(self) -> bool:
        return any(part.lower() == ".git" for part in (*self.parts, *self.requested))


class WorkspaceRoot:
    def __init__(self, folder: str, *, read_only: Collection[str] = (), hidden: Collection[str] = ()) -> None:
        """Args:
        folder: Exists for the whole life of this object.
        read_only: Paths below the root that programs outside the workspace trust.
        hidden: Paths below the root that may not be read either.
        """
        self._read_only = tuple(_parts(path) for path in read_only)
        self._hidden = tuple(_parts(path) for path in hidden)
        self.given = os.path.abspath(folder)
        self.path = os.path.realpath(folder)
        self.descriptor = os.open(self.path, _FOLDER)

    def close(self) -> None:
        os.close(self.descriptor)

    def locate(self, path: str) -> Location:
        """Return the real location of a path that is relative to the root or absolute below it.

        Raises:
            CallError: The path leaves the root.
        """
        if not path or len(path) > LONGEST_PATH or "\0" in path:
            raise CallError("bad_request", f"path: give 1 to {LONGEST_PATH} characters without a zero byte")
        requested = self._below(os.path.abspath(path)) if os.path.isabs(path) else path
        if requested is None:
            raise self._outside(path)
        try:
            real = self._below(os.path.realpath(os.path.join(self.path, requested)))
        except (OSError, ValueError):
            real = None
        if real is None:
            raise self._outside(path)
        return Location(_parts(real), _parts(requested))

    def absolute(self, location: Location) -> str:
        return os.path.join(self.path, *location.parts)

    @contextmanager
    def folder(self, location: Location) -> Iterator[int]:
        """Open a folder.

        Raises:
            CallError: It does not exist, or is not a folder.
        """
        descriptor = self._descend(location.parts, location, create=False)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    @contextmanager
    def parent(self, location: Location, *, create: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder that holds a file, and yield it with the name of the file."""
        if not location.parts:
            raise CallError("is_directory", "the root is a folder; name a file")
        descriptor = self._descend(location.parts[:-1], location, create=create)
        try:
            yield descriptor, location.parts[-1]
        finally:
            os.close(descriptor)

    @contextmanager
    def file(self, location: Location) -> Iterator[tuple[int, os.stat_result]]:
        """Open a regular file for reading."""
        with self.parent(location) as (folder, name):
            with _errors(location):
                descriptor = os.open(name, _FILE, dir_fd=folder)
            try:
                status = os.fstat(descriptor)
                if stat.S_ISDIR(status.st_mode):
                    raise CallError("is_directory", f"{location.path} is a folder; list it instead")
                if not stat.S_ISREG(status.st_mode):
                    raise CallError("not_text", f"{location.path} is not a regular file")
                yield descriptor, status
            finally:
                os.close(descriptor)

    def status(self, location: Location) -> os.stat_result | None:
        """Return the status of what is at the location; None if nothing is."""
        if not location.parts:
            return os.fstat(self.descriptor)
        try:
            with self.parent(location) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        except CallError as error:
            if error.code == "not_found":
                return None
            raise

    def refuse_trusted(self, location: Location) -> None:
        """Refuse a write to a file that programs outside the workspace trust.

        Raises:
            CallError: The file is one of them.
        """
        if any(location.parts[: len(path)] == path for path in (*self._read_only, *self._hidden)):
            raise CallError("outside", f"{location.path} is read-only here: programs outside the workspace read it")

    def _below(self, path: str) -> str | None:
        """Return the path relative to the root; None if it is not below it."""
        for root in (self.path, self.given):
            if path == root:
                return "."
            if path.startswith(root.rstrip("/") + "/"):
                return path[len(root.rstrip("/")) + 1 :]
        return None

    def _outside(self, path: str) -> CallError:
        return CallError("outside", f"{path[:200]!r} is outside the workspace; use a path below {self.given}")

    def _descend(self, parts: tuple[str, ...], location: Location, *, create: bool) -> int:
        if any(location.parts[: len(path)] == path for path in self._hidden):
            raise CallError("outside", f"{location.path} belongs to programs outside the workspace")
        descriptor = os.dup(self.descriptor)
        try:
            for part in parts:
                with _errors(location):
                    if create:
                        try:
                            os.mkdir(part, dir_fd=descriptor)
                        except FileExistsError:
                            pass
                    deeper = os.open(part, _FOLDER, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = deeper
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


@contextmanager
def _errors(location: Location) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise os_error(error, location.path) from None


def os_error(error: OSError, path: str) -> CallError:
    """Return the error of a call for an error of the operating system."""
    if error.errno == errno.ENOENT:
        return CallError("not_found", f"{path} does not exist")
    if error.errno == errno.ELOOP:
        return CallError("outside", f"{path} contains a symbolic link that changed meanwhile or does not end")
    if error.errno == errno.ENOTDIR:
        return CallError("not_found", f"{path} does not exist: a part of it is not a folder")
    if error.errno == errno.EISDIR:
        return CallError("is_directory", f"{path} is a folder")
    if error.errno in _FULL:
        return CallError("quota", "the volume of the workspace is full; delete files that are not needed")
    return CallError("bad_request", f"{path}: {os.strerror(error.errno or errno.EIO)}")


def _parts(path: str) -> tuple[str, ...]:
    return tuple(part for part in path.split("/") if part not in ("", "."))
