"""The audit trail: one JSON line for each external action of an agent, in a hash chain.

Every line contains the hash of the line before it, also across file rotation. Altering or removing a line in the middle
therefore breaks the chain. `/status` shows the newest hash, so that a truncated end is detectable too. A process that
dies while it writes leaves a partial line, which stays in the file and in the chain.

Other processes, such as a maintenance command, may append to the same trail. Each writer locks the trail and continues
at its end. The details of a call can be erased later; the line shows that they were erased. The event loop writes a
short line itself if no lock is held, because waking a thread takes longer than the write. The trail contains no
secrets. Arguments and results are truncated.
"""

import asyncio
import logging
import secrets
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

from fleetwright_agent.audit.appending import (
    TrailLocked,
    append,
    exclusive,
    inode_and_size,
    last_line,
    replace,
    terminate_partial_line,
)
from fleetwright_agent.audit.content import chain_hash, encode, is_removable, shortened, with_digest, without_details
from fleetwright_agent.audit.files import (
    CONTINUES,
    FILE,
    TrailHead,
    backup_of,
    files_of,
    last_linked,
    lines_of,
    parse_line,
)

_logger = logging.getLogger(__name__)
MOST_BYTES: Final = 50 * 1024 * 1024
_FRAME: Final = 256
"""Bytes of a line apart from its event and details: number, time and hash."""
_SHORT: Final = 4096
"""The total length of arguments and result that can be redacted within a fraction of a millisecond."""
T = TypeVar("T")


class AuditFailed(Exception):  # noqa: N818 - describes the outcome of a write
    """The line could not be written; the text is for the agent's administrators."""


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
        enabled: bool = True,
    ) -> None:
        """Args:
        on_failure: Counts a line that could not be written.
        most_bytes: The file size that triggers rotation; one backup is kept.
        patience: Seconds to wait for another process that holds the lock.
        enabled: False if auditing is off. Existing lines can be read and erased in any case.
        """
        self._path = folder / FILE
        self.redact = redact
        """Replaces the secrets of the agent in texts and JSON values."""
        self._enabled = enabled
        self._now_ns = now_ns
        self._on_failure = on_failure
        self._most_bytes = most_bytes
        self._patience = patience
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="audit")
        self._handed = 0
        """The number of jobs that the writer thread has not finished."""
        self._head: TrailHead | None = None
        self._resumed: TrailHead | None = None
        self.process: Final = secrets.token_hex(8)
        """A random id that distinguishes this process from its predecessor."""
        self._headless = False
        """True if the current file continues a rotated file and has no complete line yet."""
        self._end: tuple[int, int] | None = None
        """The inode and the size of the file after the newest line of this process."""
        self.problem: str | None = None

    @property
    def head(self) -> TrailHead | None:
        """The end of the trail; `None` before the first line of this process."""
        return self._head

    @property
    def resumed(self) -> TrailHead | None:
        """The end of the trail when this process first read the trail; `None` until then."""
        return self._resumed

    async def record(self, event: str, about: Mapping[str, Any]) -> None:
        """Append a line. Lines are written in the order in which this method is called.

        Raises:
            AuditFailed: The line is not on disk.
        """
        if self._handed == 0 and _is_short(about) and self._write_here(event, about):
            return
        writing = self._on_thread(self._write, event, dict(about))
        await asyncio.shield(writing)  # Cancelling the caller must not drop the line.

    async def note(self, event: str, about: Mapping[str, Any], *, altered: bool = False) -> None:
        """Append a line about an operation of the agent, if auditing is on. A failure is counted, but not raised.

        Args: `altered` is True if existing lines were changed; this is recorded even while auditing is off.
        """
        with suppress(AuditFailed):
            await (self.record(event, about) if altered else self.require(event, about))

    async def require(self, event: str, about: Mapping[str, Any]) -> None:
        """Append a line about an operation that must not happen without it, if auditing is on. Raises: AuditFailed."""
        if self._enabled:
            await self.record(event, about)

    async def restore(self) -> None:
        """After a failed write, append a line to test whether writing works again. A failed test is not counted.

        If the last write succeeded, read the lines that other processes have appended.
        """
        look = self._catch_up if self.problem is None else self._try_again
        await self._on_thread(look)

    async def of(self, owner: str, session_id: str = "") -> list[dict[str, Any]]:
        """Return the lines of an owner, or of one of the owner's conversations, whose details are not erased."""
        return await self._on_thread(self._found, owner, session_id)

    async def erase(self, owner: str, session_id: str = "") -> None:
        """Erase the details of the lines that `of` returns. Event, time and owner stay, and the chain stays valid.

        Raises:
            OSError: A file cannot be read or written; that file is unchanged.
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
        lines = (parse_line(data) for path in files_of(self._path) for data in lines_of(path))
        return [line for line in lines if line is not None and _tells(line, owner, session_id)]

    def _erase(self, owner: str, session_id: str) -> None:
        def kept(data: bytes) -> bytes:
            line = parse_line(data)
            return encode(without_details(line)) if line is not None and _tells(line, owner, session_id) else data

        if not self._path.parent.exists():
            return
        with exclusive(self._path.parent, self._patience):
            for path in files_of(self._path):
                lines = list(lines_of(path))
                left = [kept(data) for data in lines]
                if left != lines:
                    replace(path, b"".join(data + b"\n" for data in left))

    async def aclose(self) -> None:
        await asyncio.to_thread(self._thread.shutdown)

    def _write_here(self, event: str, about: Mapping[str, Any]) -> bool:
        """Append the line, unless another process holds the lock or has appended. Return whether it was written."""
        if self._head is None:
            return False
        try:
            with exclusive(self._path.parent, 0):
                if self._end != inode_and_size(self._path):
                    return False
                self._head, self._end = self._added(event, about), inode_and_size(self._path)
        except TrailLocked:
            return False
        except Exception:
            self._head = None  # A part of the line may have been written.
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
        with suppress(Exception):  # Readiness reports the failure.
            self._add("trail_restored", {})

    def _catch_up(self) -> None:
        with suppress(OSError):  # The next line reports the failure.
            if self._path.parent.exists() and (self._head is None or self._end != inode_and_size(self._path)):
                with exclusive(self._path.parent, self._patience):
                    self._head, self._end = self._newest(), inode_and_size(self._path)

    def _add(self, event: str, about: Mapping[str, Any]) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self._path.parent, self._patience):
                self._head, self._end = self._added(event, about), inode_and_size(self._path)
        except Exception as error:
            why = (error.strerror or str(error)) if isinstance(error, OSError) else "an internal error; see the log"
            self.problem = f"the audit trail cannot be written: {why}"
            self._head = None  # A part of the line may have been written.
            raise
        self.problem = None

    def _added(self, event: str, about: Mapping[str, Any]) -> TrailHead:
        head = self._newest()
        told = with_digest(shortened(self.redact(about)))
        # `_FRAME` is an upper bound for the rest of the line.
        self._make_room(len(encode(told)) + len(event) + _FRAME)
        if self._headless or (head.lines and not self._path.exists()):
            head = self._appended(head, CONTINUES, {})
            self._headless = False
        return self._appended(head, event, told)

    def _appended(self, head: TrailHead, event: str, told: Mapping[str, Any]) -> TrailHead:
        at = datetime.fromtimestamp(self._now_ns() / 1e9, UTC).isoformat(timespec="milliseconds")
        line = {"seq": head.lines + 1, "ts": at, "event": event, **told, "prev": head.hash}
        data = encode(line)
        append(self._path, data + b"\n")
        return TrailHead(head.lines + 1, chain_hash(data, line))

    def _make_room(self, size: int) -> None:
        if self._path.exists() and self._path.stat().st_size + size > self._most_bytes:
            self._path.replace(backup_of(self._path))

    def _newest(self) -> TrailHead:
        """Return the end of the trail, after which the next line is appended.

        If lines were removed from the end, the hash in the next line does not match, so the removal is detectable.
        """
        if self._head is None:
            head = self._resume()
            self._resumed = self._resumed or head
            return head
        if self._end == inode_and_size(self._path):
            return self._head
        for path in files_of(self._path):
            terminate_partial_line(path)
        return last_linked(self._path.parent, self._head)

    def _resume(self) -> TrailHead:
        """Return the end of the trail of the previous process; a partial line is terminated and counts as a line."""
        self._headless = not any(map(parse_line, lines_of(self._path))) and bool(last_line(backup_of(self._path)))
        for path in (self._path, backup_of(self._path)):
            if last := last_line(path):
                terminate_partial_line(path)
                data = last.rstrip(b"\n")
                return TrailHead(_number(last, self._path), chain_hash(data, parse_line(data)))
        return TrailHead()


def _tells(line: Mapping[str, Any], owner: str, session_id: str) -> bool:
    return is_removable(line) and line.get("owner") == owner and session_id in ("", line.get("session_id"))


def _is_short(about: Mapping[str, Any]) -> bool:
    told = (*about.get("args", {}).values(), about.get("result_summary", ""))
    plain = all(value is None or isinstance(value, str | int | float) for value in told)
    return plain and sum(len(value) for value in told if isinstance(value, str)) <= _SHORT


def _unexpected(error: Exception) -> Exception | None:
    """Return the error if its traceback should be logged. For an OSError, the message is sufficient."""
    return None if isinstance(error, OSError) else error


def _number(last: bytes, path: Path) -> int:
    """Return the number of a line. For a partial or altered line, it is one more than the highest number before it."""
    number = _seq(last)
    if number is not None:
        return number
    # The partial line may be the first of its file.
    return max((_seq(line) or 0 for each in (backup_of(path), path) for line in lines_of(each)), default=0) + 1


def _seq(line: bytes) -> int | None:
    number = (parse_line(line) or {}).get("seq")
    return number if isinstance(number, int) and not isinstance(number, bool) else None
