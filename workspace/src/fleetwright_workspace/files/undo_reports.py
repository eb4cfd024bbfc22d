"""The reports of the last undos. A caller that repeats an undo, because the answer was lost, receives its report.

The limits omit the oldest reports, but never the newest one. A file that is damaged counts as empty.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Sequence

from fleetwright_workspace.files.digest import digest

MOST_REPORTS = 50
MOST_CHARACTERS = 4 * 1024 * 1024


class UndoReports:
    def __init__(self, folder: str) -> None:
        self._file = os.path.join(folder, "reports.json")
        self.lock = threading.Lock()
        """Held during an undo, so that a repetition waits for the report."""
        self._reports = _load(self._file)

    def find(self, name: str, turns: Sequence[str]) -> dict[str, object] | None:
        """Return the report of an undo with this name, if it covered these turns."""
        stored = self._reports.get(_key(name, turns))
        return None if stored is None else dict(json.loads(stored))

    def keep(self, name: str, turns: Sequence[str], report: dict[str, object]) -> None:
        self._reports[_key(name, turns)] = json.dumps(report)
        while len(self._reports) > MOST_REPORTS or (len(self._reports) > 1 and self._size() > MOST_CHARACTERS):
            del self._reports[next(iter(self._reports))]
        fresh = f"{self._file}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            json.dump(self._reports, file)
        os.replace(fresh, self._file)

    def _size(self) -> int:
        return sum(map(len, self._reports.values()))


def _key(name: str, turns: Sequence[str]) -> str:
    return digest(json.dumps([name, *turns]).encode())


def _load(path: str) -> dict[str, str]:
    try:
        with open(path) as file:
            stored = json.load(file)
    except (FileNotFoundError, ValueError):
        return {}
    return stored if isinstance(stored, dict) else {}
