"""Programs of the runtime as forks of one process that has imported it already, which saves two seconds for each start.

`python -m tests.support.agent.fork_server` reads a JSON line for each program, `{"entry", "arguments", "environment",
"output", "errors"}`. It writes `{"pid"}`, and `{"pid", "status"}` when the program has ended. When its input ends, it
kills the programs. Tests of the start itself run the real command, such as `tests/agent_image/server/test_process.py`.

`tests.support.forked_commands` has another fork server, that of multiprocessing, for two reasons. That server has one
list of imports. With the command line and the Kubernetes client on it, an agent would find packages that its image
lacks. Also, two threads that wait for one process of multiprocessing may lose its exit code. Here one thread reads
every exit code, so several threads may wait for the same agent.
"""

import asyncio
import gc
import importlib
import json
import os
import selectors
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

from tests.support.machine import ceiling
from tests.support.waiting import NotInTimeError

_CHECKOUT = Path(__file__).parents[3]
COMMAND = "fleetwright_agent.__main__:main"
"""The entry of the command `fleetwright-agent`."""
STEERED_AGENT = "tests.support.agent.steered_agent:main"
"""The entry of an agent whose turn the text of a message controls."""
_IMPORTED_LAZILY = (
    "anyio._backends._asyncio",
    "fleetwright_agent.app",
    "fleetwright_agent.commands.curate.once",
    "fleetwright_agent.config.file_watcher",
    "fleetwright_agent.process.serving",
    "fleetwright_agent.security.argument_schemas",
    "fleetwright_agent.storage.sqlite.conversations.checkpoints",
    "fleetwright_agent.storage.sqlite.conversations.views",
    "fleetwright_agent.tools.mcp.provider",
    "fleetwright_agent.tools.mcp.tool_listing",
    "fleetwright_agent.turn.assembly",
    "fleetwright_agent.turn.providers.openai",
    "httpcore",
    "httpcore2",
    "jsonschema",
    "langchain_core.tracers.run_collector",
    "langchain_core.tracers.stdout",
    "mcp.client.sse",
    "mcp.client.streamable_http",
    "regex",
    "starlette.middleware.authentication",
    "tests.support.agent.steered_agent",
    "truststore",
    "uvicorn.lifespan.off",
    "uvloop",
)
"""The modules that a program imports at its start and in its first turn."""


class ForkedProcess:
    """A program, with the parts of `asyncio.subprocess.Process` and `subprocess.Popen` that tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, status: int) -> None:
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def poll(self) -> int | None:
        return self.returncode

    async def wait(self) -> int:
        return await asyncio.to_thread(self.wait_blocking)

    def wait_blocking(self) -> int:
        """Wait for the end in this thread, and return the exit code."""
        if not self._ended.wait(seconds := ceiling()):
            raise NotInTimeError(f"not within {seconds:.0f} s: the forked process {self.pid} ends")
        assert self.returncode is not None
        return self.returncode


class ForkServer:
    """The process that has imported the runtime; a context that ends it with all its programs."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.support.agent.fork_server"]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=_CHECKOUT
        )
        self._started: SimpleQueue[ForkedProcess] = SimpleQueue()
        self._starting = threading.Lock()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._server.stdin is not None
        self._server.stdin.close()
        self._server.wait()
        self._reader.join()
        assert self._server.stdout is not None
        self._server.stdout.close()

    def start(
        self,
        arguments: Sequence[str],
        *,
        entry: str = COMMAND,
        log: str = os.devnull,
        errors: str | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> ForkedProcess:
        """Start a program.

        Args:
            entry: the module and the function, which gets the arguments and returns the exit code.
            log: the path of the file that receives the standard output, which is the log of an agent.
            errors: the path of the file that receives the standard error. By default it is that of the tests.
            environment: the environment. By default it is that of the tests.
        """
        assert self._server.stdin is not None
        line = {
            "entry": entry,
            "arguments": [*arguments],
            "environment": dict(os.environ if environment is None else environment),
            "output": log,
            "errors": errors,
        }
        with self._starting:
            self._server.stdin.write(json.dumps(line) + "\n")
            return self._started.get(timeout=ceiling())

    def run(self, *arguments: str, environment: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run the command `fleetwright-agent` to its end, and return its output."""
        with tempfile.TemporaryDirectory(prefix="fleetwright-command-") as folder:
            output, errors = Path(folder) / "output", Path(folder) / "errors"
            process = self.start(arguments, log=str(output), errors=str(errors), environment=environment)
            code = process.wait_blocking()
            return subprocess.CompletedProcess([*arguments], code, output.read_text(), errors.read_text())

    def _read(self) -> None:
        assert self._server.stdout is not None
        running: dict[int, ForkedProcess] = {}
        for line in self._server.stdout:
            match json.loads(line):
                case {"pid": pid, "status": status}:
                    running.pop(pid).end(status)
                case {"pid": pid}:
                    running[pid] = ForkedProcess(pid)
                    self._started.put(running[pid])


def _serve() -> None:
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt of the test run ends the input
    running: set[int] = set()
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        selector.register(woken, selectors.EVENT_READ)
        rest = b""
        while True:
            for key, _ in selector.select():
                if key.fd == woken:
                    os.read(woken, 1024)
                    _report_ended(running)
                    continue
                read = os.read(key.fd, 65536)
                if not read:
                    _kill(running)
                    return
                *lines, rest = (rest + read).split(b"\n")
                for line in lines:
                    running.add(_fork(json.loads(line)))


def _report_ended(running: set[int]) -> None:
    for pid in sorted(running):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            running.remove(pid)
            _report({"pid": pid, "status": status})


def _kill(running: set[int]) -> None:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _report({"pid": pid})
        return pid
    code = 1
    try:
        _become_program(asked)
        module, _, function = asked["entry"].partition(":")
        code = getattr(importlib.import_module(module), function)(asked["arguments"])
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException as error:  # nothing of the parent may run in the child
        sys.stderr.write(f"{error!r}\n")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become_program(asked: dict[str, Any]) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(asked["environment"])
    added = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in added if path and path not in sys.path]
    for target, descriptor in ((os.devnull, 0), (asked["output"], 1), (asked["errors"], 2)):
        if target is not None:
            opened = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
            os.dup2(opened, descriptor)
            os.close(opened)


def _report(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def _import_modules() -> None:
    os.environ.setdefault("OTEL_INSTRUMENTATION_A2A_SDK_ENABLED", "false")  # The command sets it before it imports.
    for name in (COMMAND.partition(":")[0], *_IMPORTED_LAZILY):
        importlib.import_module(name)
    # Each of these takes tens of milliseconds, once in a process.
    importlib.import_module("fleetwright_a2a.outbound.pinned_http").default_authorities()
    importlib.import_module("fleetwright_agent.tools.mcp.wire").system_authorities()
    gc.collect()
    gc.freeze()


if __name__ == "__main__":
    _import_modules()
    _serve()
