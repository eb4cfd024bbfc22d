"""A program on a pseudo-terminal, with the bytes that it writes and the time at which each key is echoed."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.support.machine import ceiling

KEYS = "àáâãäåæçèéêëìíîïðñòóôõöøùúûüýþÿ"
"""Characters that no answer contains, so the first one in the output is the echo."""
FULL_CLEAR = b"\x1b[2J"
_SEQUENCE = re.compile(rb"\x1b(?:\[[0-9;?]*[A-Za-z]|\][^\x07]*\x07)")


class MeasuredPty:
    def __init__(
        self, command: Sequence[str], environ: Mapping[str, str], *, columns: int = 120, rows: int = 40
    ) -> None:
        self.began = time.perf_counter()
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.execvpe(command[0], [*command], dict(environ))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.output = bytearray()

    def type(self, text: str) -> None:
        os.write(self._fd, text.encode())

    def read(self, seconds: float) -> bool:
        """Read what is there. Return False if nothing came in time."""
        if not select.select([self._fd], [], [], seconds)[0]:
            return False
        try:
            self.output += os.read(self._fd, 65536)
        except OSError:
            return False
        return True

    def until(self, seen: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + ceiling()
        while not seen():
            if time.perf_counter() > deadline:
                raise TimeoutError(f"not seen; the end of the output: {bytes(self.output[-500:])!r}")
            self.read(0.05)

    def quiet(self, seconds: float = 0.5) -> None:
        """Read until nothing comes for a while."""
        while self.read(seconds):
            pass

    def plain(self, start: int = 0) -> str:
        """Return the output without escape sequences."""
        return _SEQUENCE.sub(b"", bytes(self.output[start:])).decode(errors="replace")

    def echo(self, key: str) -> float:
        """Type a key, and return the milliseconds until it is written."""
        start, began, wanted = len(self.output), time.perf_counter(), key.encode()
        self.type(key)
        while self.output.find(wanted, start) < 0:
            if not self.read(ceiling()):
                raise TimeoutError(f"the key {key} was not echoed")
        return (time.perf_counter() - began) * 1000

    def cpu_seconds(self) -> float:
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def megabytes(self) -> float:
        line = next(
            line for line in Path(f"/proc/{self.pid}/status").read_text().splitlines() if line.startswith("VmRSS:")
        )
        return int(line.split()[1]) / 1024

    def end(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self._fd)
