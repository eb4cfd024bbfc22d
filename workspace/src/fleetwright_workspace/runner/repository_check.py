"""Disarms the repositories of the workspace after each command, and records that this is due while a command runs."""

from __future__ import annotations

import contextlib
import os
import threading

from fleetwright_workspace.files.git_guard import RepositoryGuard


class RepositoryCheck:
    """A check of the workspace whose marker file exists from the start of a command to the check after its end.

    A marker that is left tells the next start that a crash prevented the check.
    """

    def __init__(self, guard: RepositoryGuard, marker: str) -> None:
        self._guard = guard
        self._marker = marker
        self._running = 0
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Record that a command starts."""
        with self._lock:
            self._running += 1
            with open(self._marker, "w"):
                pass

    def finish(self) -> list[str]:
        """Disarm the repositories after the end of a command, and return the paths of the changed files."""
        with self._lock:
            changed = self._guard.disarm()
            self._running -= 1
            if not self._running:
                with contextlib.suppress(OSError):
                    os.unlink(self._marker)
            return changed
