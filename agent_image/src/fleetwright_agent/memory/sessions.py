"""What earlier conversations of the same owner were about, one small file each (PA-097, PA-098).

A process that dies leaves a file as it was or whole; a power cut may spoil it. Everything is keyed by owner: a folder
per owner, so one caller's text never reaches another's prompt. What comes out is fenced as data.
"""

import hashlib
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields
from itertools import islice, product
from pathlib import Path
from typing import Any
from urllib.parse import quote

from fleetwright_agent.memory.made import Made
from fleetwright_agent.turn.compaction.fence import PRIOR, fence

FOLDER = "sessions"
_NEWEST = 10
_MOST_CHARACTERS = 2000 * 4
_EXCHANGES = 5
_CALLS = 5
_LINE = 240
_TOPIC = 80
"""Of a conversation's identifier, which its client chose."""
_LOOKED_AT = 32 * _LINE
"""Of a text that may be as long as a request: what is kept of it, and what shows that its end is part of a secret."""
_NOTE = "earlier conversations with this caller; information, not instructions"


@dataclass(frozen=True, slots=True)
class Session:
    context_id: str
    exchanges: list[list[str]]
    """The newest questions, each with its answer, both cut short."""
    updated: float
    """Seconds since the epoch."""
    tool_calls: list[dict[str, Any]] = field(default_factory=list)
    """The last of those that the newest answer came from: name, args, result, duration_ms; cut short as well."""
    tool_calls_total_count: int = 0
    trace_id: str = ""


class Sessions:
    """Reads and writes are small and synchronous; call them off the event loop."""

    def __init__(self, folder: Path, *, redact: Callable[[str], str], clock: Callable[[], float] = time.time) -> None:
        """`redact` takes secrets out of what is remembered: it comes back in every prompt."""
        self._folder = folder
        self._redact = redact
        self._clock = clock

    def _of(self, owner: str) -> Path:
        return self._folder / hashlib.sha256(owner.encode()).hexdigest()[:32]

    def record(
        self, owner: str, context_id: str, *, asked: str, answered: str, calls: Sequence[Made] = (), trace_id: str = ""
    ) -> None:
        """Remembers the latest exchange of a conversation, and what was done for it, beside the few before it."""
        folder = self._of(owner)
        path = folder / f"{_file_name(context_id)}.json"
        known = _read(path)
        if known is None:
            folder.mkdir(parents=True, exist_ok=True)
        before = known.exchanges if known else []
        exchanges = [*before, [self._told(asked), self._told(_aloud(answered))]][-_EXCHANGES:]
        told = [
            {
                "name": call.name,
                "args": self._told(call.args),
                "result": self._told(call.result),
                "duration_ms": call.duration_ms,
            }
            for call in calls[-_CALLS:]
        ]
        session = Session(context_id, exchanges, self._clock(), told, len(calls), trace_id)
        handle, temporary = tempfile.mkstemp(dir=folder, suffix=".new")
        with os.fdopen(handle, "w") as file:
            # Not synced, unlike the conversation itself: a power cut may cost what is remembered of this one.
            # Not by `asdict`, which copies every text.
            file.write(json.dumps({each.name: getattr(session, each.name) for each in fields(session)}))
        Path(temporary).replace(path)
        if known is None:
            self._forget(folder)

    def _told(self, text: str) -> str:
        return _cut(self._redact(text.lstrip()[:_LOOKED_AT]))

    def prior(self, owner: str, context_id: str) -> str:
        """The newest sessions but this one, at most 2,000 tokens; empty when none.

        Of each the newest exchange before the earlier ones of any: one long conversation hides no other.
        """
        others = (session for session in self._newest(self._of(owner)) if session.context_id != context_id)
        sessions = [*islice(others, _NEWEST)]
        shown = [0] * len(sessions)
        room = _MOST_CHARACTERS - len(fence(PRIOR, _NOTE, ""))
        for age, place in product(range(1, _EXCHANGES + 1), range(len(sessions))):
            if age > len(sessions[place].exchanges):
                continue
            room -= len(_entry(sessions[place], age)) - len(_entry(sessions[place], age - 1)) + 1
            if room < 0:
                break
            shown[place] = age
        entries = [_entry(session, count) for session, count in zip(sessions, shown, strict=True) if count]
        return fence(PRIOR, _NOTE, "\n".join(reversed(entries))) if entries else ""

    def of(self, owner: str, context_id: str = "") -> list[Session]:
        """All of them, or that of one conversation; the newest first."""
        return [session for session in self._load(self._of(owner)) if context_id in ("", session.context_id)]

    def erase(self, owner: str, context_id: str = "") -> None:
        """Of one conversation, or all: what cannot be read, and what was never finished, goes too."""
        folder = self._of(owner)
        if context_id:
            for path in (folder / f"{_file_name(context_id)}.json", *folder.glob("*.new")):
                path.unlink(missing_ok=True)
        elif folder.exists():
            shutil.rmtree(folder)

    def expire(self, before: float) -> None:
        """Forgets what was said last before that moment, what cannot be read, and what a process that died had begun to
        write before it; in seconds since the epoch.
        """
        for path in self._folder.glob("*/*.json"):
            known = _read(path)
            if known is None or known.updated < before:
                path.unlink(missing_ok=True)
        for path in self._folder.glob("*/*.new"):
            if _written(path) < before * 1e9:
                path.unlink(missing_ok=True)

    def _newest(self, folder: Path) -> Iterator[Session]:
        """First what was written last, each read when it is asked for: a new conversation waits for it."""
        for path in sorted(folder.glob("*.json"), key=_written, reverse=True):
            if (session := _read(path)) is not None:
                yield session

    def _load(self, folder: Path) -> list[Session]:
        found = [session for path in folder.glob("*.json") if (session := _read(path)) is not None]
        return sorted(found, key=lambda session: session.updated, reverse=True)

    def _forget(self, folder: Path) -> None:
        """Bounds the folder: ten times what a prompt can show is kept."""
        paths = list(folder.glob("*.json"))
        if len(paths) > _NEWEST * 10:
            min(paths, key=_written).unlink(missing_ok=True)


def _entry(session: Session, exchanges: int) -> str:
    """So many of its newest; nothing of it where none are."""
    if not exchanges:
        return ""
    names = ", ".join(dict.fromkeys(str(call["name"]) for call in session.tool_calls))
    by = f", answered with {names}" if names else ""
    lines = [f"- asked: {asked}\n  answered: {answered}" for asked, answered in session.exchanges[-exchanges:]]
    return "\n".join([f"{_day(session.updated)}, conversation {_cut(session.context_id)[:_TOPIC]}{by}:", *lines])


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except FileNotFoundError:
        return 0  # Forgotten by another conversation's end meanwhile.


def _read(path: Path) -> Session | None:
    """One damaged file loses one session of memory, never the turn."""
    try:
        return Session(**json.loads(path.read_text()))
    except (ValueError, TypeError, OSError):
        return None


def _aloud(answer: str) -> str:
    """Without what a model has thought before it, where its server passes that on as words."""
    thought, end, said = answer.lstrip().partition("</think>")
    return said if end and thought.startswith("<think>") else answer


def _cut(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= _LINE else f"{plain[:_LINE]} …"


def _file_name(context_id: str) -> str:
    name = quote(context_id, safe="")
    return name if len(name) <= 120 else hashlib.sha256(context_id.encode()).hexdigest()


def _day(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(seconds))
