"""Agents as forks of one process that has imported the runtime already, which saves two seconds for each start.

`python -m tests.agent_image.life.preloaded` reads a JSON line for each agent, `{"arguments", "environment", "log"}`. It
writes `{"pid"}`, and `{"pid", "status"}` when the agent has ended. When its input ends, it kills its agents. Tests of
the start itself run the real command, such as `tests/agent_image/server/test_process.py`.
"""

import asyncio
import gc
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Self

_CHECKOUT = Path(__file__).parents[3]


class ForkedProcess:
    """An agent, with the part of `asyncio.subprocess.Process` that tests use."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._ended = threading.Event()

    def end(self, status: int) -> None:
        self.returncode = os.waitstatus_to_exitcode(status)
        self._ended.set()

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        os.kill(self.pid, signal.SIGTERM)

    async def wait(self) -> int:
        await asyncio.to_thread(self._ended.wait)
        assert self.returncode is not None
        return self.returncode


class Preloaded:
    """The process that has imported the runtime; a context that ends it with all its agents."""

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "tests.agent_image.life.preloaded"]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1, cwd=_CHECKOUT
        )
        self._started: SimpleQueue[ForkedProcess] = SimpleQueue()
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

    def start(self, arguments: Sequence[str], *, log: str = os.devnull) -> ForkedProcess:
        """Args: `log` is the path of the file that receives the log lines."""
        assert self._server.stdin is not None
        line = {"arguments": [*arguments], "environment": dict(os.environ), "log": log}
        self._server.stdin.write(json.dumps(line) + "\n")
        return self._started.get(timeout=200)

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
            _tell({"pid": pid, "status": status})


def _kill(running: set[int]) -> None:
    for pid in running:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)


def _fork(asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _tell({"pid": pid})
        return pid
    try:
        _become_agent(asked["environment"], asked["log"])
        from fleetwright_agent.__main__ import main

        os._exit(main(asked["arguments"]))
    except SystemExit as end:
        os._exit(end.code if isinstance(end.code, int) else 1)
    except BaseException as error:  # nothing of the parent may run in the child
        sys.stderr.write(f"{error!r}\n")
        os._exit(1)


def _become_agent(environment: dict[str, str], log: str) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGCHLD, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    os.environ.clear()
    os.environ.update(environment)
    added = environment.get("PYTHONPATH", "").split(os.pathsep)
    sys.path[1:1] = [path for path in added if path and path not in sys.path]
    for target, descriptor in ((os.devnull, 0), (log, 1)):
        opened = os.open(target, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        os.dup2(opened, descriptor)
        os.close(opened)


def _tell(message: dict[str, int]) -> None:
    os.write(1, json.dumps(message).encode() + b"\n")


def main() -> None:
    # What an agent imports at its start and in its first turn.
    import uvloop

    import fleetwright_agent.__main__
    import fleetwright_agent.app
    import fleetwright_agent.process.serving
    import fleetwright_agent.turn.assembly
    import fleetwright_agent.turn.providers.openai

    del uvloop, fleetwright_agent
    gc.collect()
    gc.freeze()
    _serve()


if __name__ == "__main__":
    main()
