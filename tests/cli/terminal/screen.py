"""A program on a pseudo-terminal, with the screen that a terminal would show."""

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import pexpect
import pyte

FULL_CLEAR = "\x1b[2J"
_PRIVATE = re.compile(r"\x1b\[\?2026[hl]")


class PtyScreen:
    """Reads the output in a thread. Wait for text on the screen, because only changed cells are sent."""

    def __init__(
        self, command: Sequence[str], *, environ: Mapping[str, str], columns: int = 80, rows: int = 24
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=100_000, ratio=0.5)
        self._stream = pyte.Stream(self.screen)
        self.raw: list[str] = []
        self._lock = threading.Lock()
        self.process = pexpect.spawn(
            command[0], [*command[1:]], env=dict(environ), dimensions=(rows, columns), encoding="utf-8",
            codec_errors="replace",
        )  # fmt: skip
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

    def wait(self, wanted: str | Callable[[], object], seconds: float = 150) -> None:
        """Wait until a text is on the screen or in the scrollback."""
        seen = (lambda: wanted in self.text) if isinstance(wanted, str) else wanted
        deadline = time.monotonic() + seconds
        while not seen():
            assert time.monotonic() < deadline, f"waited for {wanted!r}; the screen:\n{self.text}"
            time.sleep(0.01)

    def resize(self, columns: int, rows: int) -> None:
        self.process.setwinsize(rows, columns)
        with self._lock:
            self.screen.resize(rows, columns)

    def end(self) -> None:
        self.process.close(force=True)
        self._thread.join(60)


@contextmanager
def on_screen(
    command: Sequence[str], *, environ: Mapping[str, str], columns: int = 80, rows: int = 24
) -> Iterator[PtyScreen]:
    screen = PtyScreen(command, environ=environ, columns=columns, rows=rows)
    try:
        yield screen
    finally:
        screen.end()
