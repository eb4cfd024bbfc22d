"""Model calls that have started and not ended, in an append-only file next to the databases.

A line is written before a call starts. The line survives a crash of the process, but not always a power failure,
because no call waits for an fsync. A line contains the owner and the task of a call, but no content. The file is empty
while no call runs. This module does not know the cost of a call.
"""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

FILE: Final = "calls.jsonl"
_OURS_ALONE: Final = 0o600
_log = logging.getLogger(__name__)
_MOST_BYTES: Final = 64 * 1024
"""The file size above which the lines of finished calls are removed, if they are at least half of the file."""


class FileOpenModelCalls:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._size = 0
        """The size of the lines of running calls."""
        self._running: dict[str, bytes] = {}
        self._left: dict[str, Any] | None = None

    def begin(self, call: str, about: Any) -> None:
        """Record a call. If the file cannot be written, an error is logged and the call starts anyway."""
        line = self._running[call] = _line({"call": call, "about": about})
        self._size += len(line)
        try:
            os.write(self._opened(), line)
        except OSError as error:
            _log.error("a model call could not be recorded before it started: %s", error)

    def end(self, call: str) -> None:
        """Remove a call that has ended and whose cost is stored."""
        line = self._running.pop(call, None)
        if line is None and (self._left or {}).pop(call, None) is None:
            return
        self._size -= len(line or b"")
        with suppress(OSError):
            file = self._opened()
            if not self._running and not self._left:
                os.ftruncate(file, 0)
                return
            os.write(file, _line({"end": call}))
            if os.fstat(file).st_size > max(_MOST_BYTES, 2 * self._size):
                self._shorten()

    def left(self) -> dict[str, Any]:
        """Return the records of calls that earlier processes started and that never ended, by call id.

        Raises:
            OSError: The file cannot be read.
        """
        self._opened()
        return dict(self._left or {})

    def erase(self, owner: str, *, named: str) -> None:
        """Replace the owner's name by `named` in the calls that earlier processes left. Running calls keep their owner.

        The lines of all calls that have ended are removed too.

        Raises:
            OSError: The file cannot be written.
        """
        self._opened()
        for about in (self._left or {}).values():
            if about["owner"] == owner:
                about["owner"] = named
        self._shorten()

    def aclose(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        """Raises: OSError."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, _OURS_ALONE)
            if self._left is None:
                written = self._path.read_bytes()
                self._left = _left(written)
                if not self._left:
                    os.ftruncate(file, 0)
                elif not written.endswith(b"\n"):
                    os.write(file, b"\n")  # The previous process ended while it wrote its last line.
            self._file = file
        return self._file

    def _shorten(self) -> None:
        """Replace the file with one that contains only the lines of open calls. Raises: OSError."""
        left = [_line({"call": call, "about": about}) for call, about in (self._left or {}).items()]
        fresh = self._path.with_suffix(".new")
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, _OURS_ALONE)
        with os.fdopen(file, "wb") as target:
            target.writelines((*left, *self._running.values()))
        fresh.replace(self._path)
        self.aclose()


def _line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _left(written: bytes) -> dict[str, Any]:
    """Return the calls that have not ended. A damaged line is skipped: the process may have died while writing it."""
    found: dict[str, Any] = {}
    for line in written.splitlines():
        with suppress(ValueError, KeyError, TypeError, AttributeError):
            document = json.loads(line)
            if "end" in document:
                found.pop(document["end"], None)
            elif {"owner", "task", "usage"} <= document["about"].keys():
                found[document["call"]] = document["about"]
    return found
