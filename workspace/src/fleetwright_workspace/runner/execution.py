"""Streams the output of a command from the executor to the client. Nothing that the executor sends is trusted.

Memory stays constant: the head of the output is passed on at once, and of the rest only the tail is kept.
"""

from __future__ import annotations

import contextlib
import json
import selectors
import socket
import stat
import threading
import time

from fleetwright_workspace.executor.frames import (
    END,
    GRACE_SECONDS,
    HEARTBEAT_SECONDS,
    STDERR,
    STDOUT,
    FrameError,
    FrameReader,
)
from fleetwright_workspace.files.call_error import CallError
from fleetwright_workspace.files.root import LONGEST_PATH, WorkspaceRoot
from fleetwright_workspace.runner.command_ids import CommandIds
from fleetwright_workspace.runner.fields import Fields
from fleetwright_workspace.runner.http_message import HttpConnection
from fleetwright_workspace.runner.output_window import OutputWindow
from fleetwright_workspace.runner.repository_check import RepositoryCheck

MOST_COMMANDS = 16
LONGEST_TIMEOUT = 3600.0
STDOUT_CHARACTERS = 50_000
STDERR_CHARACTERS = 5_000
LONGEST_COMMAND = 100_000
"""Linux limits one argument to 128 KiB."""
_MOST_WORDS = 1000
_LONGEST_ID = 200
_CONNECT_SECONDS = 2.0
_SILENT_SECONDS = 4 * HEARTBEAT_SECONDS
_OVERTIME_SECONDS = 5 * GRACE_SECONDS
_END_SECONDS = 2 * GRACE_SECONDS
_STRAY_SECONDS = 1.0
"""The executor ends the processes of a command within this time, if the command has killed its keeper."""
_MOST_NOTES = 20
_DISARMED = "disabled, because git outside the workspace would run programs or follow links that it names"
_CHUNK = 1 << 16


class Execution:
    def __init__(
        self, root: WorkspaceRoot, socket_path: str, ids: CommandIds, check: RepositoryCheck | None = None
    ) -> None:
        """Args: `check` disarms repositories after each command; None if nothing outside runs git in the workspace."""
        self._root = root
        self._socket_path = socket_path
        self._ids = ids
        self._check = check
        self._free = threading.BoundedSemaphore(MOST_COMMANDS)

    def is_available(self) -> bool:
        try:
            self._connect().close()
        except CallError:
            return False
        return True

    def run(self, client: HttpConnection, fields: Fields) -> None:
        """Run the command and stream its output to the client.

        Raises:
            CallError: The command was not started.
        """
        command_id, timeout, request = self._request(fields)
        if not self._free.acquire(blocking=False):
            raise CallError("executor_unavailable", f"{MOST_COMMANDS} commands run already; try again later")
        try:
            with self._connect() as executor:
                if not self._ids.claim(command_id):
                    raise CallError("exists", "id: a command with this id was started before; it is not run again")
                self._run(client, executor, request, time.monotonic() + timeout + _OVERTIME_SECONDS)
        finally:
            self._free.release()

    def _run(self, client: HttpConnection, executor: socket.socket, request: bytes, deadline: float) -> None:
        if self._check is not None:
            self._check.begin()
        notes: list[str] = []
        end: dict[str, object] | None = None
        try:
            try:
                executor.sendall(request)
            except OSError:
                raise CallError("executor_lost", "the executor ended when the command was sent") from None
            client.begin_stream("application/x-ndjson")
            stream = _CommandStream(client, executor, deadline)
            end = stream.receive()
        finally:
            if self._check is not None:
                _await_end(executor)
                if end is None:
                    time.sleep(_STRAY_SECONDS)
                notes = [f"{path}: {_DISARMED}\n" for path in self._check.finish()[:_MOST_NOTES]]
        stream.finish(end, notes)

    def _request(self, fields: Fields) -> tuple[str, float, bytes]:
        command_id = fields.text("id", longest=_LONGEST_ID)
        if not command_id or not command_id.isprintable():
            raise CallError("bad_request", f"id: give 1 to {_LONGEST_ID} printable characters")
        command = fields.text("command", "", longest=LONGEST_COMMAND)
        argv = fields.texts("argv", [], most=_MOST_WORDS, longest=LONGEST_COMMAND)
        cwd = self._root.locate(fields.text("cwd", ".", longest=LONGEST_PATH))
        timeout = fields.seconds("timeout_seconds", most=LONGEST_TIMEOUT)
        environment = fields.environment()
        fields.finish()
        if bool(command.strip()) == bool(argv) or "\0" in command + "".join(argv) or argv[:1] == [""]:
            raise CallError("bad_request", "command, argv: give one of them, without zero bytes")
        status = self._root.status(cwd)
        if status is None or not stat.S_ISDIR(status.st_mode):
            raise CallError("not_found", f"cwd: {cwd.path} is not a folder")
        value: dict[str, object] = {"argv": argv} if argv else {"command": command}
        value.update(cwd=cwd.path, timeout_seconds=timeout, environment=environment)
        return command_id, timeout, json.dumps(value).encode() + b"\n"

    def _connect(self) -> socket.socket:
        executor = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        executor.settimeout(_CONNECT_SECONDS)
        try:
            executor.connect(self._socket_path)
        except OSError:
            executor.close()
            raise CallError("executor_unavailable", "the executor does not answer; it may be starting") from None
        return executor


class _CommandStream:
    """Copies one command's frames to the client as lines of JSON."""

    def __init__(self, client: HttpConnection, executor: socket.socket, deadline: float) -> None:
        self._client = client
        self._executor = executor
        self._deadline = deadline
        self._started = time.monotonic()
        self._windows = {
            STDOUT: OutputWindow(STDOUT_CHARACTERS // 2, STDOUT_CHARACTERS // 2),
            STDERR: OutputWindow(STDERR_CHARACTERS // 2, STDERR_CHARACTERS // 2),
        }

    def receive(self) -> dict[str, object] | None:
        """Copy until the end of the command. Return what the executor says about it; None if the executor is lost.

        Raises:
            OSError: The client is gone. The executor ends the command when its connection closes.
        """
        try:
            return self._receive()
        except FrameError:
            return None

    def finish(self, end: dict[str, object] | None, notes: list[str]) -> None:
        """Send the rest of the output, the notes, and the end of the command.

        Raises:
            OSError: The client is gone.
        """
        self._send_tails()
        if notes:
            self._send({"stream": "stderr", "text": "".join(notes)})
        if end is None:
            self._send({"lost": True})
        else:
            counts = {f"{_name(kind)}_bytes": window.total for kind, window in self._windows.items()}
            self._send({"end": {**end, **counts, "seconds": round(time.monotonic() - self._started, 3)}})
        self._client.send_chunk(b"")

    def _receive(self) -> dict[str, object] | None:
        """Return what the executor says about the end of the command; None if the executor is lost."""
        reader = FrameReader()
        heard = beat = time.monotonic()
        self._executor.setblocking(False)
        with selectors.DefaultSelector() as selector:
            selector.register(self._executor, selectors.EVENT_READ)
            selector.register(self._client.stream, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select(max(beat + HEARTBEAT_SECONDS - time.monotonic(), 0)):
                    if key.fileobj is self._client.stream:
                        self._require_client()
                        selector.unregister(self._client.stream)  # it sent more, which is ignored
                        continue
                    try:
                        data = self._executor.recv(_CHUNK)
                    except BlockingIOError:
                        continue
                    except OSError:
                        return None
                    if not data:
                        return None
                    heard = time.monotonic()
                    for kind, content in reader.add(data):
                        if kind == END:
                            return parse_end(content)
                        self._pass_on(kind, content)
                now = time.monotonic()
                if now > self._deadline or now - heard > _SILENT_SECONDS:
                    return None
                if now - beat >= HEARTBEAT_SECONDS:
                    beat = now
                    self._send({"heartbeat": True})

    def _require_client(self) -> None:
        self._client.stream.settimeout(0)
        if not self._client.stream.recv(1, socket.MSG_PEEK):
            raise ConnectionResetError("the client closed the connection")

    def _pass_on(self, kind: bytes, content: bytes) -> None:
        window = self._windows.get(kind)
        if window is not None:
            text = window.add(content)
            if text:
                self._send({"stream": _name(kind), "text": text})

    def _send_tails(self) -> None:
        for kind, window in self._windows.items():
            cut, text = window.finish()
            if cut:
                self._send({"stream": _name(kind), "cut": cut})
            if text:
                self._send({"stream": _name(kind), "text": text})

    def _send(self, line: dict[str, object]) -> None:
        self._client.send_chunk(json.dumps(line, ensure_ascii=False).encode(errors="replace") + b"\n")


def _await_end(executor: socket.socket) -> None:
    """Wait until the executor has ended the processes of the command, and closes the connection."""
    with contextlib.suppress(OSError):
        executor.shutdown(socket.SHUT_WR)
        executor.settimeout(_END_SECONDS)
        deadline = time.monotonic() + _END_SECONDS
        while executor.recv(_CHUNK) and time.monotonic() < deadline:
            pass


def parse_end(content: bytes) -> dict[str, object] | None:
    """Return the end of a command as the executor tells it; None if it is not one."""
    try:
        value = json.loads(content)
        exit_code, signal_name = value["exit"], value["signal"]
        timed_out, stopped = value["timed_out"], value["stopped"]
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    if exit_code is not None and not (type(exit_code) is int and 0 <= exit_code <= 255):
        return None
    if signal_name is not None and not (isinstance(signal_name, str) and len(signal_name) <= 20):
        return None
    if type(timed_out) is not bool or stopped not in ("", "memory", "processes"):
        return None
    return {"exit": exit_code, "signal": signal_name, "timed_out": timed_out, "stopped": stopped}


def _name(kind: bytes) -> str:
    return "stdout" if kind == STDOUT else "stderr"
