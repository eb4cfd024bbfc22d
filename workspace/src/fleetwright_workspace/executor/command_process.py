"""Runs one command in a process of its own, which ends together with everything that the command started.

The process sends the output as frames. It ends the command at its time-out, when the connection closes, and when the
command has too many processes or too much memory. The kernel limits processes too: see `task_limit`.
"""

from __future__ import annotations

import errno
import json
import os
import resource
import selectors
import signal
import socket
import subprocess
import time
from collections.abc import Mapping
from typing import NamedTuple

from fleetwright_workspace.executor.environment import command_environment
from fleetwright_workspace.executor.frames import (
    END,
    GRACE_SECONDS,
    HEARTBEAT,
    HEARTBEAT_SECONDS,
    LARGEST_FRAME,
    LARGEST_REQUEST,
    STDERR,
    STDOUT,
    frame,
)
from fleetwright_workspace.executor.process_tree import (
    become_subreaper,
    descendants,
    end_tree,
    kill_tree,
    proportional_set_size,
    tree_size,
)
from fleetwright_workspace.executor.task_limit import (
    count_tasks,
    count_visible_tasks,
    is_fork_refused,
    limit_tasks,
    reports_refusal,
    to_task_limit,
)

_REQUEST_SECONDS = 10.0
_REFUSAL_SECONDS = 1.0
_TICK_SECONDS = 0.1
_FIRST_TICK_SECONDS = 0.0005
_WATCH_SECONDS = 0.25
_OUTPUT_BUFFER = 4 * LARGEST_FRAME
_DRAIN_SECONDS = 0.5
"""How long the output of background processes is read after the command itself has ended."""
_MANY_TASKS = 50
"""A command with fewer processes and threads is not the reason why the kernel refuses further ones."""
_TASKS_REFUSED = (
    "the kernel refuses further processes and threads: the commands of this workspace have too many. Wait until other"
    " commands have ended, or use fewer at the same time"
)
_NOT_FOUND = 127
_NOT_STARTED = 126
_SHELLS = ("/bin/bash", "/usr/bin/bash", "/usr/local/bin/bash", "/bin/sh")


class CommandLimits(NamedTuple):
    memory_bytes: int
    """The limit of the data of each process, and of the resident memory of all together."""
    processes: int
    """The most processes of one command. All commands together have at most twice as many processes and threads."""


class CommandSettings(NamedTuple):
    root: str
    home: str
    keep: tuple[str, ...]
    """Names of variables that commands get besides those of the toolchain."""
    limits: CommandLimits


class CommandRequest(NamedTuple):
    argv: tuple[str, ...]
    cwd: str
    timeout_seconds: float
    environment: Mapping[str, str]


def read_request(connection: socket.socket) -> CommandRequest:
    """Return the request.

    Raises:
        ValueError: The bytes are not a request.
        OSError: The request does not arrive in time.
    """
    connection.settimeout(_REQUEST_SECONDS)
    received = bytearray()
    while not received.endswith(b"\n"):
        data = connection.recv(1 << 16)
        if not data or len(received) > LARGEST_REQUEST:
            raise ValueError("the request is not one line")
        received += data
    value = json.loads(received)
    command = value.get("command")
    argv = (_shell(), "-c", command) if command is not None else tuple(value["argv"])
    return CommandRequest(argv, value["cwd"], float(value["timeout_seconds"]), value["environment"])


def serve_command(connection: socket.socket, settings: CommandSettings) -> None:
    """Run the command that the connection asks for."""
    become_subreaper()
    try:
        request = read_request(connection)
    except (ValueError, TypeError, KeyError, AttributeError, OSError):
        return
    _restrict(settings.limits)
    environment = command_environment(os.environ, request.environment, home=settings.home, keep=settings.keep)
    try:
        process = subprocess.Popen(
            request.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=os.path.join(settings.root, request.cwd),
            env=environment,
            start_new_session=True,
        )
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        status = _NOT_FOUND if isinstance(error, FileNotFoundError) else _NOT_STARTED
        is_refused = getattr(error, "errno", None) == errno.EAGAIN
        why = f"not started, because {_TASKS_REFUSED}" if is_refused else getattr(error, "strerror", None) or error
        _send_refusal(connection, f"{request.argv[0]}: {why}\n", status)
        return
    _Pump(connection, process, settings.limits, time.monotonic() + request.timeout_seconds).run()


def refuse_command(connection: socket.socket) -> None:
    """Answer a request for which the kernel refuses a process.

    The server itself calls this, so a client must not be able to hold it up: one part of the request is read, because
    the runner sends it before it reads the answer.

    Raises:
        OSError: The runner is gone, or sends nothing.
    """
    connection.settimeout(_REFUSAL_SECONDS)
    connection.recv(LARGEST_REQUEST)
    _send_refusal(connection, f"the command was not started, because {_TASKS_REFUSED}\n", _NOT_STARTED)


def _send_refusal(connection: socket.socket, text: str, status: int) -> None:
    end = {"exit": status, "signal": None, "timed_out": False, "stopped": ""}
    connection.sendall(frame(STDERR, text.encode(errors="replace")) + frame(END, json.dumps(end).encode()))


class _Pump:
    """Moves output from the command to the connection, and ends the command when it must."""

    def __init__(
        self, connection: socket.socket, process: subprocess.Popen[bytes], limits: CommandLimits, deadline: float
    ) -> None:
        self._connection = connection
        self._process = process
        self._limits = limits
        self._deadline = deadline
        self._pipes: dict[int, bytes] = {}
        self._buffer = bytearray()
        self._status: int | None = None
        self._timed_out = False
        self._stopped = ""
        self._reports_refusal = False
        self._has_raised_score = False
        self._gone = False
        self._tick = _FIRST_TICK_SECONDS

    def run(self) -> None:
        assert self._process.stdout is not None  # noqa: S101 - both are pipes
        assert self._process.stderr is not None  # noqa: S101 - same
        self._connection.setblocking(False)
        self._pipes = {self._process.stdout.fileno(): STDOUT, self._process.stderr.fileno(): STDERR}
        for pipe in self._pipes:
            os.set_blocking(pipe, False)
        self._read_until_end()
        if self._stopped:
            # A bomb would use the time that others get to end.
            kill_tree(os.getpid(), self._reap)
        else:
            end_tree(os.getpid(), self._reap, grace=GRACE_SECONDS)
        if self._gone:
            return
        self._connection.settimeout(2 * HEARTBEAT_SECONDS)
        for pipe, kind in self._pipes.items():
            self._drain(pipe, kind)
        self._buffer += self._describe_refusal()
        self._connection.sendall(bytes(self._buffer) + frame(END, json.dumps(self._end()).encode()))

    def _read_until_end(self) -> None:
        next_watch = time.monotonic() + _WATCH_SECONDS
        next_heartbeat = time.monotonic() + HEARTBEAT_SECONDS
        ended_at: float | None = None
        while not self._gone:
            self._raise_command_score()
            self._select()
            self._reap()
            now = time.monotonic()
            if self._status is not None:
                if ended_at is None:
                    ended_at = next_watch = now  # What the command has left behind may be too much.
                if not self._pipes or now - ended_at > _DRAIN_SECONDS:
                    return
            elif now >= self._deadline:
                self._timed_out = True
                return
            if now >= next_watch:
                next_watch = now + _WATCH_SECONDS
                self._stopped = self._excess()
                if self._stopped:
                    return
            if now >= next_heartbeat:
                next_heartbeat = now + HEARTBEAT_SECONDS
                self._buffer += frame(HEARTBEAT)

    def _select(self) -> None:
        """Wait for output, for room in the connection, or for its end, but no longer than a tick."""
        selector = selectors.PollSelector()
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._buffer else 0)
        selector.register(self._connection, events)
        if len(self._buffer) < _OUTPUT_BUFFER:
            for pipe in self._pipes:
                selector.register(pipe, selectors.EVENT_READ)
        for key, ready in selector.select(self._wait()):
            if key.fileobj is not self._connection:
                self._read(key.fd)
                continue
            if ready & selectors.EVENT_WRITE:
                self._send()
            if ready & selectors.EVENT_READ:
                self._gone = self._gone or not self._is_open()

    def _wait(self) -> float:
        """Return how long to wait. No event announces the end of the command, or of its start."""
        if self._pipes and self._has_raised_score:
            return _TICK_SECONDS
        self._tick = min(2 * self._tick, _TICK_SECONDS)
        return self._tick

    def _raise_command_score(self) -> None:
        if self._has_raised_score or self._status is not None:
            return
        if _raise_oom_score(self._process.pid):
            self._has_raised_score = True
            self._tick = _FIRST_TICK_SECONDS

    def _read(self, pipe: int) -> None:
        try:
            data = os.read(pipe, LARGEST_FRAME)
        except BlockingIOError:
            return
        if data:
            self._add_output(self._pipes[pipe], data)
        else:
            del self._pipes[pipe]

    def _add_output(self, kind: bytes, data: bytes) -> None:
        self._buffer += frame(kind, data)
        self._reports_refusal = self._reports_refusal or reports_refusal(data)

    def _drain(self, pipe: int, kind: bytes) -> None:
        """Read what is left in a pipe after every process has ended."""
        while True:
            try:
                data = os.read(pipe, LARGEST_FRAME)
            except BlockingIOError:
                return
            if not data:
                return
            self._add_output(kind, data)

    def _send(self) -> None:
        try:
            del self._buffer[: self._connection.send(self._buffer)]
        except BlockingIOError:
            return
        except OSError:
            self._gone = True

    def _is_open(self) -> bool:
        """Return whether the runner still wants the result. It sends nothing after the request."""
        try:
            return bool(self._connection.recv(1))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def _excess(self) -> str:
        size = tree_size(os.getpid())
        if size.processes > self._limits.processes or self._exhausts_task_limit():
            return "processes"
        most = self._limits.memory_bytes
        return "memory" if size.resident_bytes > most and proportional_set_size(os.getpid()) > most else ""

    def _exhausts_task_limit(self) -> bool:
        """Return whether the kernel refuses further tasks, and most tasks are those of this command."""
        own = count_tasks(descendants(os.getpid()))
        return own >= _MANY_TASKS and is_fork_refused() and 2 * own > count_visible_tasks()

    def _describe_refusal(self) -> bytes:
        """Return the reason of a failure for which programs have only the text of EAGAIN."""
        succeeded = self._status is not None and os.WIFEXITED(self._status) and os.WEXITSTATUS(self._status) == 0
        if self._stopped or self._timed_out or succeeded or not self._reports_refusal:
            return b""
        text = (
            "[If the kernel has refused a process or thread here: all commands of the workspace together have too many."
            f" They may have {to_task_limit(self._limits.processes)}, or fewer if the container allows fewer.]\n"
        )
        return frame(STDERR, text.encode())

    def _reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if pid == self._process.pid:
                self._status = status

    def _end(self) -> dict[str, object]:
        exit_code: int | None = None
        name: str | None = None
        if self._status is not None and os.WIFEXITED(self._status):
            exit_code = os.WEXITSTATUS(self._status)
        elif self._status is not None:
            number = os.WTERMSIG(self._status)
            name = signal.Signals(number).name if number in set(signal.Signals) else f"SIG{number}"
        return {"exit": exit_code, "signal": name, "timed_out": self._timed_out, "stopped": self._stopped}


def _restrict(limits: CommandLimits) -> None:
    """Limit this process, from which the command inherits the limits.

    A function that runs between fork and exec would keep `subprocess` from using vfork, which is faster.
    """
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    most = limits.memory_bytes if hard == resource.RLIM_INFINITY else min(limits.memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    limit_tasks(to_task_limit(limits.processes))
    _raise_oom_score(os.getpid())


def _raise_oom_score(pid: int) -> bool:
    """Make the kernel end this process, and those that it starts, before others if there is no memory left.

    Only root may do this for a process that forbids tracing, such as this one. So the command gets it too, but not
    before the kernel has finished its start.

    Returns: False if this was refused.
    """
    try:
        with open(f"/proc/{pid}/oom_score_adj", "w") as file:
            file.write("1000")
    except OSError:
        return False
    return True


def _shell() -> str:
    return next((path for path in _SHELLS if os.access(path, os.X_OK)), "/bin/sh")
