"""States of programs that tests start."""

import contextlib
import socket
from typing import Protocol

from tests.support.machine import ceiling


class Program(Protocol):
    """A started program, such as a `subprocess.Popen`."""

    def poll(self) -> int | None: ...


def is_listening(program: Program, port: int) -> bool:
    """Return whether the program accepts connections on this loopback port. Fail if it has ended."""
    assert (code := program.poll()) is None, f"the program has exited with code {code}"
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=ceiling()):
        return True
    return False
