"""Starts the runner: `python -m fleetwright_workspace.runner --root FOLDER --state FOLDER …`."""

from __future__ import annotations

import os
import signal
import socket
import sys

from fleetwright_workspace.files.file_store import remove_leftovers
from fleetwright_workspace.files.git_guard import RepositoryGuard
from fleetwright_workspace.files.root import WorkspaceRoot
from fleetwright_workspace.files.search import FileSearch, find_ripgrep
from fleetwright_workspace.files.undo_store import UndoStore
from fleetwright_workspace.options import parse_options
from fleetwright_workspace.runner.calls import FileCalls
from fleetwright_workspace.runner.command_ids import CommandIds
from fleetwright_workspace.runner.execution import Execution
from fleetwright_workspace.runner.repository_check import RepositoryCheck
from fleetwright_workspace.runner.server import RunnerServer
from fleetwright_workspace.runner.tokens import AcceptedTokens

_DRAIN_SECONDS = 3.0
_PROTECTED = ("read-only", "hidden", "trusted")
_REQUIRED = ("root", "state", "executor", "tokens", "listen")


def main() -> None:
    options = parse_options(sys.argv[1:], _REQUIRED, {"port-file": "", "guard": ""}, repeated=_PROTECTED)
    folder, state = options["root"][0], options["state"][0]
    if not os.path.isdir(folder):
        sys.exit(f"--root: {folder} is not a folder")
    os.umask(0o022)
    os.makedirs(state, mode=0o700, exist_ok=True)
    root = WorkspaceRoot(folder, read_only=options["read-only"], hidden=options["hidden"])
    undo = UndoStore(os.path.join(state, "undo"))
    remove_leftovers(root, undo.last_paths())
    calls = FileCalls(root, undo, FileSearch(root, ripgrep=find_ripgrep()))
    check = _repository_check(root, options["trusted"], options["guard"][0])
    execution = Execution(root, options["executor"][0], CommandIds(os.path.join(state, "commands")), check)
    with _listener(options["listen"][0]) as listener:
        if options["port-file"][0]:
            _write_port(options["port-file"][0], listener.getsockname()[1])
        server = RunnerServer(calls, execution, AcceptedTokens(options["tokens"][0]))
        signal.signal(signal.SIGTERM, lambda *_: _end(server))
        server.serve(listener)


def _repository_check(root: WorkspaceRoot, trusted: list[str], marker: str) -> RepositoryCheck | None:
    """Return the check of repositories that commands make; None if nothing outside the workspace runs git in it."""
    if not marker:
        return None
    guard = RepositoryGuard(root, trusted)
    if not os.path.exists(marker):
        guard.keep_existing_links()
    guard.disarm()
    return RepositoryCheck(guard, marker)


def _end(server: RunnerServer) -> None:
    """End the process. The executor ends the commands, because their connections close."""
    server.drain(_DRAIN_SECONDS)
    os._exit(0)


def _listener(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    if not port.isdigit():
        sys.exit(f"--listen: {address} is not HOST:PORT")
    name = host.strip("[]")
    family = socket.AF_INET6 if ":" in name else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind((name, int(port)))
    return listener


def _write_port(path: str, port: int) -> None:
    with open(f"{path}.new", "w") as file:
        file.write(f"{port}\n")
    os.replace(f"{path}.new", path)


if __name__ == "__main__":
    main()
