"""Reads whole files, and replaces them atomically. The limit keeps memory bounded."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from typing import NamedTuple

from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.digest import digest
from fleetwright_workspace.files.root import Location, WorkspaceRoot, os_error

EDIT_LIMIT = 2 * 1024 * 1024
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_TEMPORARY = ".fleetwright-{}.tmp"
_NEW_MODE = 0o644


class FileState(NamedTuple):
    """The content of a file at one moment."""

    data: bytes
    digest: str
    mtime_ns: int
    mode: int
    inode: int

    def is_unchanged(self, status: os.stat_result) -> bool:
        """Return whether the file is the same one by its status alone."""
        return (status.st_mtime_ns, status.st_ino, status.st_size) == (self.mtime_ns, self.inode, len(self.data))


def load(root: WorkspaceRoot, location: Location, *, limit: int = EDIT_LIMIT) -> FileState:
    """Read a whole file.

    Raises:
        CallError: It does not exist, is not a regular file, or is larger than the limit.
    """
    with root.file(location) as (descriptor, status):
        data = _read(descriptor, limit, location) if status.st_size <= limit else b""
        if status.st_size > limit:
            raise _too_large(location, limit)
        return FileState(data, digest(data), status.st_mtime_ns, stat.S_IMODE(status.st_mode), status.st_ino)


def load_if_exists(root: WorkspaceRoot, location: Location) -> FileState | None:
    try:
        return load(root, location)
    except CallError as error:
        if error.code == "not_found":
            return None
        raise


def replace(root: WorkspaceRoot, location: Location, data: bytes, before: FileState | None) -> int:
    """Replace the file by one with this content, and return its modification time.

    The content is durable before the new file takes the name. A new file gets the usual mode, an existing one keeps it.

    Raises:
        CallError: The file is no longer the one that was read.
    """
    mode = before.mode if before is not None else _NEW_MODE
    temporary = _TEMPORARY.format(os.urandom(8).hex())
    with root.parent(location, create=before is None) as (folder, name):
        try:
            try:
                descriptor = os.open(temporary, _NEW, 0o600, dir_fd=folder)
                try:
                    _write(descriptor, data)
                    os.fchmod(descriptor, mode)
                    os.fsync(descriptor)
                    mtime_ns = os.fstat(descriptor).st_mtime_ns
                finally:
                    os.close(descriptor)
                _require_same(folder, name, location, before)
                os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
            except BaseException:
                _remove(folder, temporary)
                raise
            os.fsync(folder)
        except OSError as error:
            raise os_error(error, location.path) from None
    return mtime_ns


def remove(root: WorkspaceRoot, location: Location) -> None:
    with root.parent(location) as (folder, name):
        os.unlink(name, dir_fd=folder)


def remove_leftovers(root: WorkspaceRoot, paths: Iterable[str]) -> None:
    """Remove temporary files that a killed runner left beside these files."""
    for parent in {path.rpartition("/")[0] or "." for path in paths}:
        try:
            with root.folder(root.locate(parent)) as folder:
                for name in os.listdir(folder):
                    if is_temporary(name):
                        _remove(folder, name)
        except CallError:
            continue  # the folder is gone


def is_temporary(name: str) -> bool:
    """Return whether a name is one that `replace` uses. A killed process may leave such a file."""
    start, end = _TEMPORARY.split("{}")
    return name.startswith(start) and name.endswith(end) and len(name) == len(start) + len(end) + 16


def _require_same(folder: int, name: str, location: Location, before: FileState | None) -> None:
    try:
        status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        if before is None:
            return
        raise CallError("changed", f"{location.path} was deleted meanwhile; read it again") from None
    if before is None or not before.is_unchanged(status):
        raise CallError("changed", f"{location.path} changed meanwhile; read it again")


def _read(descriptor: int, limit: int, location: Location) -> bytes:
    pieces: list[bytes] = []
    size = 0
    while True:
        piece = os.read(descriptor, 1 << 20)
        if not piece:
            return b"".join(pieces)
        size += len(piece)
        if size > limit:
            raise _too_large(location, limit)
        pieces.append(piece)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _remove(folder: int, name: str) -> None:
    try:
        os.unlink(name, dir_fd=folder)
    except FileNotFoundError:
        pass


def _too_large(location: Location, limit: int) -> CallError:
    return CallError("too_large", f"{location.path} is larger than {limit} bytes")
