"""The audit trail: one JSON line for each thing that an agent did to the world, chained by hashes.

Every line holds the hash of the line before it, across the change of files as well: what is altered or taken out in
the middle shows, and `/status` tells the newest hash, so that a cut end shows too. A process that dies while it
writes leaves half a line, which stays as it is and is chained like any other. A command beside the agent may add to the
same trail: whoever writes has it alone, and goes on from where it ends. What a line tells of a call can be taken
out of it later, and shows as taken out. A short line that nothing is in the way of the event loop writes itself: to
wake a thread takes longer than the line. Refuses: secrets, and whole arguments or results.
"""

import asyncio
import json
import logging
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from fleetwright_agent.audit.appending import Held, alone, append, end_half, end_of, last_line, replace
from fleetwright_agent.audit.content import chained, encoded, is_removable, with_digest, without
from fleetwright_agent.audit.files import (
    CONTINUES,
    FILE,
    Head,
    backup_of,
    files_of,
    following,
    lines_of,
    parsed,
)

_logger = logging.getLogger(__name__)
MOST_BYTES: Final = 50 * 1024 * 1024
_ARGUMENT: Final = 500
_RESULT: Final = 200
_MARGIN: Final = 8192
"""Characters behind what is kept: half a secret could not be told from a word."""
_FRAME: Final = 256
"""Bytes of a line beside its event and what it tells: number, time, hash."""
_SHORT: Final = 4096
"""Characters of arguments and result together, which are redacted within a fraction of a millisecond."""
T = TypeVar("T")


class AuditFailed(Exception):  # noqa: N818 - states what became of a line
    """The line could not be written; the text is for people who run the agent."""


class AuditTrail:
    def __init__(
        self,
        folder: Path,
        *,
        redact: Callable[[Any], Any],
        now_ns: Callable[[], int],
        on_failure: Callable[[], None],
        most_bytes: int = MOST_BYTES,
        patience: float = 5.0,
    ) -> None:
        """`on_failure` counts; with more than `most_bytes` the file becomes the one backup and a new one begins.

        Args: `patience` is for another process that writes; in seconds.
        """
        self._path = folder / FILE
        self._redact = redact
        self._now_ns = now_ns
        self._on_failure = on_failure
        self._most_bytes = most_bytes
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._handed = 0
        """Pieces of work that the thread has and that are not over."""
        self._head: Head | None = None
        self._resumed: Head | None = None
        self.process: Final = secrets.token_hex(8)
        """Tells this process from the one before it: what that one had written is where this one has to go on."""
        self._headless = False
        """The present file has no whole line, and follows another one."""
        self._end: tuple[int, int] | None = None
        """The file and its size behind the newest line of this process."""
        self.problem: str | None = None

    @property
    def head(self) -> Head | None:
        """Nothing before the first line of this process; what another one adds is known once it was looked for."""
        return self._head

    @property
    def resumed(self) -> Head | None:
        """The end of the trail when this process first looked at it; None before that look."""
        return self._resumed

    async def record(self, event: str, about: Mapping[str, Any]) -> None:
        """Adds a line, in the order of the calls.

        Raises:
            AuditFailed: It is not on disk.
        """
        if self._handed == 0 and _is_short(about) and self._write_here(event, about):
            return
        writing = self._on_thread(self._write, event, dict(about))
        await asyncio.shield(writing)  # Who cancels a call must not take its line away.

    async def restore(self) -> None:
        """Where the last line could not be written, tries whether one can be by now; failing at it counts nothing.

        Where all is well, looks for lines of other processes.
        """
        look = self._catch_up if self.problem is None else self._try_again
        await self._on_thread(look)

    async def of(self, owner: str, session_id: str = "") -> list[dict[str, Any]]:
        """The lines that tell what was done for an owner, or in one conversation of it, and still tell how."""
        return await self._on_thread(self._found, owner, session_id)

    async def erase(self, owner: str, session_id: str = "") -> None:
        """Takes out of those lines how it was done; that it was, when and by whom, stays, and so does the chain.

        Raises:
            OSError: A file cannot be read or written; it is as it was.
        """
        await self._on_thread(self._erase, owner, session_id)

    def _on_thread(self, work: Callable[..., T], *about: Any) -> "asyncio.Future[T]":
        self._handed += 1
        done = asyncio.get_running_loop().run_in_executor(self._thread, work, *about)
        done.add_done_callback(self._over)
        return done

    def _over(self, _: "asyncio.Future[Any]") -> None:
        self._handed -= 1

    def _found(self, owner: str, session_id: str) -> list[dict[str, Any]]:
        lines = (parsed(data) for path in files_of(self._path) for data in lines_of(path))
        return [line for line in lines if line is not None and _tells(line, owner, session_id)]

    def _erase(self, owner: str, session_id: str) -> None:
        def kept(data: bytes) -> bytes:
            line = parsed(data)
            return encoded(without(line)) if line is not None and _tells(line, owner, session_id) else data

        if not self._path.parent.exists():
            return
        with alone(self._path.parent, self._patience):
            for path in files_of(self._path):
                lines = list(lines_of(path))
                left = [kept(data) for data in lines]
                if left != lines:
                    replace(path, b"".join(data + b"\n" for data in left))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def _write_here(self, event: str, about: Mapping[str, Any]) -> bool:
        """Adds the line, unless it would have to wait, or to read what others have added. Failing tells the thread."""
        if self._head is None:
            return False
        try:
            with alone(self._path.parent, 0):
                if self._end != end_of(self._path):
                    return False
                self._head, self._end = self._added(event, about), end_of(self._path)
        except Held:
            return False
        except Exception:
            self._head = None  # Part of the line may be there.
            return False
        return True

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

    def _catch_up(self) -> None:
        with suppress(OSError):  # The next line tells it.
            if self._path.parent.exists() and (self._head is None or self._end != end_of(self._path)):
                with alone(self._path.parent, self._patience):
                    self._head, self._end = self._newest(), end_of(self._path)

    def _add(self, event: str, about: Mapping[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with alone(self._path.parent, self._patience):
                self._head, self._end = self._added(event, about), end_of(self._path)
        except Exception as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else "a line broke; see the log"
            self.problem = f"the audit trail cannot be written: {why}"
            self._head = None  # Part of the line may be there.
            raise
        self.problem = None

    def _added(self, event: str, about: Mapping[str, Any]) -> Head:
        head = self._newest()
        told = with_digest(_shortened(self._redact(about)))
        # The line is longer than what it tells by less than this.
        self._make_room(len(encoded(told)) + len(event) + _FRAME)
        if self._headless or (head.lines and not self._path.exists()):
            head = self._appended(head, CONTINUES, {})
            self._headless = False
        return self._appended(head, event, told)

    def _appended(self, head: Head, event: str, told: Mapping[str, Any]) -> Head:
        at = datetime.fromtimestamp(self._now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
        line = {"seq": head.lines + 1, "ts": at, "event": event, **told, "prev": head.hash}
        data = encoded(line)
        append(self._path, data + b"\n")
        return Head(head.lines + 1, chained(data, line))

    def _make_room(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size + size > self._most_bytes:
            self._path.replace(backup_of(self._path))

    def _newest(self) -> Head:
        """The line to go on from. Lines that were cut off are none: what comes next then does not fit, and shows it."""
        if self._head is None:
            head = self._resume()
            self._resumed = self._resumed or head
            return head
        if self._end == end_of(self._path):
            return self._head
        for path in files_of(self._path):
            end_half(path)
        return following(self._path.parent, self._head)

    def _resume(self) -> Head:
        """Where the last process stopped; half a line gets its end, where it stands, and counts as one."""
        self._headless = not any(map(parsed, lines_of(self._path))) and bool(last_line(backup_of(self._path)))
        for path in (self._path, backup_of(self._path)):
            if last := last_line(path):
                end_half(path)
                data = last.rstrip(b"\n")
                return Head(_number(last, self._path), chained(data, parsed(data)))
        return Head()


def _tells(line: Mapping[str, Any], owner: str, session_id: str) -> bool:
    return is_removable(line) and line.get("owner") == owner and session_id in ("", line.get("session_id"))


def _is_short(about: Mapping[str, Any]) -> bool:
    told = (*about.get("args", {}).values(), about.get("result_summary", ""))
    plain = all(value is None or isinstance(value, str | int | float) for value in told)
    return plain and sum(len(value) for value in told if isinstance(value, str)) <= _SHORT


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
