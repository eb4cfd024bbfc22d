"""The audit trail: one JSON line for each thing that an agent did to the world, chained by hashes.

Every line holds the hash of the line before it, across the change of files as well: what is altered or taken out in
the middle shows, and `/status` tells the newest hash, so that a cut end shows too. A process that dies while it
writes leaves half a line, which stays as it is and is chained like any other. What a line tells of a call can be taken
out of it later, and shows as taken out. Refuses: secrets, and whole arguments or results.
"""

import asyncio
import json
import logging
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from fleetwright_agent.security.audit_content import chained, encoded, is_removable, with_digest, without
from fleetwright_agent.security.audit_files import FILE, NOTHING, backup_of, files_of, lines_of, parsed

_logger = logging.getLogger(__name__)
MOST_BYTES: Final = 50 * 1024 * 1024
_ARGUMENT: Final = 500
_RESULT: Final = 200
_MARGIN: Final = 8192
"""Characters behind what is kept: half a secret could not be told from a word."""


class AuditFailed(Exception):  # noqa: N818 - states what became of a line
    """The line could not be written; the text is for people who run the agent."""


@dataclass(frozen=True, slots=True)
class Head:
    """The end of the trail: how many lines there are, and the hash of the last."""

    lines: int = 0
    hash: str = NOTHING


class AuditTrail:
    def __init__(
        self,
        folder: Path,
        *,
        redact: Callable[[Any], Any],
        now_ns: Callable[[], int],
        on_failure: Callable[[], None],
        most_bytes: int = MOST_BYTES,
    ) -> None:
        """`on_failure` counts; with more than `most_bytes` the file becomes the one backup and a new one begins."""
        self._path = folder / FILE
        self._redact = redact
        self._now_ns = now_ns
        self._on_failure = on_failure
        self._most_bytes = most_bytes
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._head: Head | None = None
        self.problem: str | None = None

    @property
    def head(self) -> Head | None:
        """Nothing before the first line of this process."""
        return self._head

    async def record(self, event: str, about: Mapping[str, Any]) -> None:
        """Adds a line, in the order of the calls.

        Raises:
            AuditFailed: It is not on disk.
        """
        writing = asyncio.get_running_loop().run_in_executor(self._thread, self._write, event, dict(about))
        await asyncio.shield(writing)  # Who cancels a call must not take its line away.

    async def restore(self) -> None:
        """Where the last line could not be written, tries whether one can be by now; failing at it counts nothing."""
        if self.problem is not None:
            await asyncio.get_running_loop().run_in_executor(self._thread, self._try_again)

    async def of(self, owner: str, session_id: str = "") -> list[dict[str, Any]]:
        """The lines that tell what was done for an owner, or in one conversation of it, and still tell how."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._found, owner, session_id)

    async def erase(self, owner: str, session_id: str = "") -> None:
        """Takes out of those lines how it was done; that it was, when and by whom, stays, and so does the chain.

        Raises:
            OSError: A file cannot be read or written; it is as it was.
        """
        await asyncio.get_running_loop().run_in_executor(self._thread, self._erase, owner, session_id)

    def _found(self, owner: str, session_id: str) -> list[dict[str, Any]]:
        lines = (parsed(data) for path in files_of(self._path) for data in lines_of(path))
        return [line for line in lines if line is not None and _tells(line, owner, session_id)]

    def _erase(self, owner: str, session_id: str) -> None:
        def kept(data: bytes) -> bytes:
            line = parsed(data)
            return encoded(without(line)) if line is not None and _tells(line, owner, session_id) else data

        for path in files_of(self._path):
            lines = list(lines_of(path))
            left = [kept(data) for data in lines]
            if left != lines:
                _replace(path, b"".join(data + b"\n" for data in left))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def _write(self, event: str, about: Mapping[str, Any]) -> None:
        try:
            self._add(event, about)
        except Exception as error:
            self._on_failure()
            _logger.error("audit line lost", extra={"event": event, "why": self.problem}, exc_info=_unexpected(error))
            raise AuditFailed(self.problem) from error

    def _try_again(self) -> None:
        with suppress(Exception):  # Readiness tells it.
            self._add("trail_restored", {})

    def _add(self, event: str, about: Mapping[str, Any]) -> None:
        try:
            head = self._head or self._resume()
            at = datetime.fromtimestamp(self._now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
            told = with_digest(_shortened(self._redact(about)))
            line = {"seq": head.lines + 1, "ts": at, "event": event, **told, "prev": head.hash}
            data = encoded(line)
            self._make_room(len(data) + 1)
            _append(self._path, data + b"\n")
        except Exception as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else "a line broke; see the log"
            self.problem = f"the audit trail cannot be written: {why}"
            self._head = None  # part of the line may be there
            raise
        self.problem = None
        self._head = Head(head.lines + 1, chained(data, line))

    def _make_room(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size + size > self._most_bytes:
            self._path.replace(backup_of(self._path))

    def _resume(self) -> Head:
        """Where the last process stopped; half a line gets its end, where it stands, and counts as one."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        for path in (self._path, backup_of(self._path)):
            if last := _last_line(path):
                if not last.endswith(b"\n"):
                    _append(path, b"\n")
                data = last.rstrip(b"\n")
                return Head(_number(last, self._path), chained(data, parsed(data)))
        return Head()


def _tells(line: Mapping[str, Any], owner: str, session_id: str) -> bool:
    return is_removable(line) and line.get("owner") == owner and session_id in ("", line.get("session_id"))


def _replace(path: Path, data: bytes) -> None:
    new = path.with_name(f"{path.name}.new")
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


def _append(path: Path, data: bytes) -> None:
    # One write of the whole line: a process that dies leaves all or nothing of it, unless the machine goes too.
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(file, data) != len(data):
            raise OSError("the volume is full")
    finally:
        os.close(file)


def _unexpected(error: Exception) -> Exception | None:
    """A volume that fails is told in words; what else fails is told whole."""
    return None if isinstance(error, OSError) else error


def call_line(arguments: Mapping[str, Any], result: str) -> dict[str, Any]:
    """What is told of a call; more of it than is kept, until it is redacted."""
    return {
        "args": {key: _cut(value, _ARGUMENT + _MARGIN) for key, value in arguments.items()},
        "result_summary": result[: _RESULT + _MARGIN],
    }


def _shortened(about: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments cut one by one, and the beginning of the result (PA-127)."""
    cut = {"args": {key: _cut(value, _ARGUMENT) for key, value in about["args"].items()}} if "args" in about else {}
    result = {"result_summary": about["result_summary"][:_RESULT]} if "result_summary" in about else {}
    return {**about, **cut, **result}


def _cut(value: Any, most: int) -> Any:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return value if len(text) <= most else f"{text[:most]}…"


def _last_line(path: Path) -> bytes:
    """With its line break, where it has one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            step = 64 * 1024
            while True:
                start = max(0, size - step)
                file.seek(start)
                tail = file.read()
                found = tail.rstrip(b"\n").rfind(b"\n")
                if found >= 0 or start == 0:
                    return tail[found + 1 :]
                step *= 4
    except FileNotFoundError:
        return b""


def _number(last: bytes, path: Path) -> int:
    """Its number in the trail; of half a line, or an altered one, one more than the highest before it."""
    number = _seq(last)
    if number is not None:
        return number
    # The half one may be the first of its file.
    return max((_seq(line) or 0 for each in (backup_of(path), path) for line in lines_of(each)), default=0) + 1


def _seq(line: bytes) -> int | None:
    number = (parsed(line) or {}).get("seq")
    return number if isinstance(number, int) and not isinstance(number, bool) else None
