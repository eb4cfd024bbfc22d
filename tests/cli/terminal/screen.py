"""A program on a pseudo-terminal, with the screen that a terminal would show."""

import codecs
import os
import re
import signal
import termios
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Protocol

import pexpect
import pyte
from tests.support.forked_commands import start_module
from tests.support.machine import ceiling
from tests.support.waiting import wait_until

FULL_CLEAR = "\x1b[2J"
_PRIVATE = re.compile(r"\x1b\[\?2026[hl]")


class Terminal(Protocol):
    """A program on a pseudo-terminal; the part of `pexpect.spawn` that a screen uses."""

    pid: int
    exitstatus: int | None

    def read_nonblocking(self, size: int = 1, timeout: float | None = -1) -> str: ...

    def send(self, s: str) -> int: ...

    def setwinsize(self, rows: int, cols: int) -> None: ...

    def isalive(self) -> bool: ...

    def close(self, force: bool = True) -> None: ...


def spawn_program(command: Sequence[str], *, environ: Mapping[str, str], columns: int, rows: int) -> Terminal:
    spawned: Terminal = pexpect.spawn(
        command[0], [*command[1:]], env=dict(environ), dimensions=(rows, columns), encoding="utf-8",
        codec_errors="replace",
    )  # fmt: skip
    return spawned


class ForkedTerminal:
    """A module of `tests.support.forked_commands` on a pseudo-terminal. The first word is its name."""

    def __init__(self, command: Sequence[str], *, environ: Mapping[str, str], columns: int, rows: int) -> None:
        self._terminal, slave = os.openpty()
        self.setwinsize(rows, columns)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        module, *words = command
        try:
            self._program = start_module(
                module, *words, environment=environ, stdin=slave, stdout=slave, stderr=slave, has_terminal=True
            )
        finally:
            os.close(slave)
        self.pid = self._program.pid

    @property
    def exitstatus(self) -> int | None:
        return self._program.returncode

    def read_nonblocking(self, size: int = 1, timeout: float | None = -1) -> str:
        """Return what the program writes next.

        Raises:
            OSError: if the program has ended.
        """
        return self._decoder.decode(os.read(self._terminal, size))

    def send(self, s: str) -> int:
        return os.write(self._terminal, s.encode())

    def setwinsize(self, rows: int, cols: int) -> None:
        termios.tcsetwinsize(self._terminal, (rows, cols))

    def isalive(self) -> bool:
        return self._program.poll() is None

    def close(self, force: bool = True) -> None:
        """End the program as a closed terminal does, and kill it if it stays."""
        self._program.send_signal(signal.SIGHUP)
        self._program.kill()
        self._program.wait()
        os.close(self._terminal)


class PtyScreen:
    """Reads the output in a thread. Wait for text on the screen, because only changed cells are sent."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        environ: Mapping[str, str],
        columns: int = 80,
        rows: int = 24,
        terminal: Callable[..., Terminal] = spawn_program,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.raw: list[str] = []
        self._lock = threading.Lock()
        self.process = terminal(command, environ=environ, columns=columns, rows=rows)
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        while True:
            try:
                text = self.process.read_nonblocking(65536, timeout=None)
            except (pexpect.EOF, ValueError, OSError):
                return
            with self._lock:
                self.raw.append(text)
                # pyte would show this sequence, which it does not know.
                self._stream.feed(_PRIVATE.sub("", text))

    @property
    def lines(self) -> list[str]:
        """The rows of the screen."""
        with self._lock:
            return [line.rstrip() for line in self.screen.display]

    @property
    def text(self) -> str:
        """The scrollback and the screen."""
        with self._lock:
            rows = [*self.screen.history.top, *(self.screen.buffer[y] for y in range(self.screen.lines))]
            columns = range(self.screen.columns)
            return "\n".join("".join(row[x].data for x in columns).rstrip() for row in rows)

    @property
    def sent(self) -> str:
        with self._lock:
            return "".join(self.raw)

    def type(self, text: str) -> None:
        self.process.send(text)

    def wait(self, text: str) -> None:
        """Wait until a text is on the screen or in the scrollback."""
        self.wait_until(lambda: text in self.text, f"{text!r} is on the screen")

    def wait_until(self, condition: Callable[[], object], what: str) -> None:
        """Wait until a condition is true. `what` says what the screen should show then."""
        wait_until(condition, what, shown=lambda: self.text, pause=0.01)

    def wait_for_end(self) -> None:
        """Wait until the program has ended and its last output is read."""
        self.wait_until(lambda: not self.process.isalive(), "the program ends")
        self.wait_until(lambda: not self._thread.is_alive(), "the output of the program ends")

    def resize(self, columns: int, rows: int) -> None:
        self.process.setwinsize(rows, columns)
        with self._lock:
            self.screen.resize(rows, columns)

    def end(self) -> None:
        self.process.close(force=True)
        self._thread.join(ceiling())


@contextmanager
def on_screen(
    command: Sequence[str],
    *,
    environ: Mapping[str, str],
    columns: int = 80,
    rows: int = 24,
    terminal: Callable[..., Terminal] = spawn_program,
) -> Iterator[PtyScreen]:
    screen = PtyScreen(command, environ=environ, columns=columns, rows=rows, terminal=terminal)
    try:
        yield screen
    finally:
        screen.end()
