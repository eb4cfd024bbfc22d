"""Model calls that were begun and have not ended, in an append-only file beside the databases.

A line is written before a call is made and outlives the process, because the kernel has it; nothing waits for a disk.
A power cut may lose it. The file is empty while no call runs. Refuses: knowing what a call costs.
"""

import json
import logging
import os
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

FILE: Final = "calls.jsonl"
_log = logging.getLogger(__name__)
_MOST_BYTES: Final = 64 * 1024
"""From here on the lines of calls that have ended are dropped."""


class OpenCalls:
    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: int | None = None
        self._running: dict[str, bytes] = {}
        self._left: dict[str, Any] | None = None

    def begin(self, call: str, about: Any) -> None:
        """Record a call. If the file cannot be written, the log has an error and the call is made."""
        line = self._running[call] = _line({"call": call, "about": about})
        try:
            os.write(self._opened(), line)
        except OSError as error:
            _log.error("a model call could not be recorded before it was made: %s", error)

    def end(self, call: str) -> None:
        """The call has ended, and what it cost is stored."""
        if self._running.pop(call, None) is None and (self._left or {}).pop(call, None) is None:
            return
        with suppress(OSError):
            file = self._opened()
            if not self._running and not self._left:
                os.ftruncate(file, 0)
            elif os.write(file, _line({"end": call})) and os.fstat(file).st_size > _MOST_BYTES:
                self._shorten(file)

    def left(self) -> dict[str, Any]:
        """Return what former processes recorded of calls that never ended, by call."""
        if self._left is None:
            self._opened()
        return dict(self._left or {})

    def aclose(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _opened(self) -> int:
        """Raises: OSError."""
        if self._file is None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            if self._left is None:
                self._left = _left(self._path.read_bytes())
            self._file = file
        return self._file

    def _shorten(self, file: int) -> None:
        left = [_line({"call": call, "about": about}) for call, about in (self._left or {}).items()]
        fresh = self._path.with_suffix(".new")
        fresh.write_bytes(b"".join((*left, *self._running.values())))
        fresh.chmod(0o600)
        fresh.replace(self._path)
        os.close(file)
        self._file = None


def _line(document: Any) -> bytes:
    return json.dumps(document).encode() + b"\n"


def _left(written: bytes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in written.splitlines():
        # The process may have ended within the last line.
        with suppress(ValueError):
            document = json.loads(line)
            if "end" in document:
                found.pop(document["end"], None)
            else:
                found[document["call"]] = document["about"]
    return found
