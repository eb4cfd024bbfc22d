"""Accepts connections on the Unix socket and starts one process for each of them."""

from __future__ import annotations

import os
import signal
import socket

from fleetwright_workspace.executor.command_process import CommandSettings, refuse_command, serve_command
from fleetwright_workspace.executor.process_tree import forbid_tracing

MOST_COMMANDS = 32
_ACCEPT_SECONDS = 0.5
_BACKLOG = 16


class CommandServer:
    """Serves until the socket file is no longer the one that this process bound."""

    def __init__(self, path: str, settings: CommandSettings) -> None:
        self._path = path
        self._settings = settings
        self._running: set[int] = set()

    def serve(self) -> None:
        forbid_tracing()
        with _bind(self._path) as listener:
            bound = os.stat(self._path).st_ino
            listener.settimeout(_ACCEPT_SECONDS)
            while _inode(self._path) == bound:
                self._reap()
                try:
                    connection, _ = listener.accept()
                except socket.timeout:
                    continue
                except OSError:
                    return
                self._start(connection, listener)

    def _start(self, connection: socket.socket, listener: socket.socket) -> None:
        with connection:
            self._reap()
            if len(self._running) >= MOST_COMMANDS:
                return
            try:
                pid = os.fork()
            except OSError:
                _refuse(connection)
                return
            if pid:
                self._running.add(pid)
                return
            try:
                listener.close()
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                serve_command(connection, self._settings)
            except OSError:
                pass  # the runner is gone
            finally:
                os._exit(0)

    def _reap(self) -> None:
        while self._running:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                self._running.clear()
                return
            if pid == 0:
                return
            self._running.discard(pid)


def _refuse(connection: socket.socket) -> None:
    try:
        refuse_command(connection)
    except OSError:
        pass  # the runner is gone


def _bind(path: str) -> socket.socket:
    """Bind below a temporary name and rename it, so that no client connects before the server listens."""
    fresh = f"{path}.new"
    for name in (fresh, path):
        try:
            os.unlink(name)
        except FileNotFoundError:
            continue
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o007)
    try:
        listener.bind(fresh)
    finally:
        os.umask(mask)
    listener.listen(_BACKLOG)
    os.rename(fresh, path)
    return listener


def _inode(path: str) -> int:
    try:
        return os.stat(path, follow_symlinks=False).st_ino
    except OSError:
        return 0
