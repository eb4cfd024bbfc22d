"""The ids of commands that were started, which survive a restart of the runner. So no command is ever run twice."""

from __future__ import annotations

import os
import threading

MOST_IDS = 20_000


class CommandIds:
    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        try:
            with open(path) as file:
                lines = file.read().split("\n")
        except FileNotFoundError:
            lines = []
        # A crash may have cut the last line. Its command was not started, because a start follows the durable id.
        self._ids = dict.fromkeys(line for line in lines[:-1][-MOST_IDS:] if line)
        self._write_all()

    def claim(self, command_id: str) -> bool:
        """Store the id durably. Return False if it was claimed before."""
        with self._lock:
            if command_id in self._ids:
                return False
            self._ids[command_id] = None
            if len(self._ids) > 2 * MOST_IDS:
                self._ids = dict.fromkeys(list(self._ids)[-MOST_IDS:])
                self._write_all()
            else:
                self._write(self._path, os.O_APPEND, f"{command_id}\n")
            return True

    def _write_all(self) -> None:
        fresh = f"{self._path}.new"
        self._write(fresh, os.O_TRUNC, "".join(f"{command_id}\n" for command_id in self._ids))
        os.replace(fresh, self._path)

    def _write(self, path: str, mode: int, text: str) -> None:
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | mode, 0o600), "w") as file:
            file.write(text)
            file.flush()
            os.fdatasync(file.fileno())
