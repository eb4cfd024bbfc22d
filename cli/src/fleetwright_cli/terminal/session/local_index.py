"""The local index of conversations: agent, id, title, last use and cost. It has no transcript and no token.

Agents forget a task a day after its end, but remember the conversation for weeks. The index lists such conversations.
"""

import contextlib
import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from fleetwright_cli.safe_text import one_line

TITLE_LENGTH: Final = 60
_MOST: Final = 500
_LARGEST: Final = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class IndexEntry:
    agent: str
    """The key of the agent's endpoint."""
    context_id: str
    title: str
    used: float
    """The time of the last use, in seconds since the epoch."""
    cost_usd: str = ""


def index_file(environ: Mapping[str, str]) -> Path:
    home = Path(environ.get("XDG_STATE_HOME") or Path.home() / ".local/state")
    return home / "fleetwright" / "conversations.json"


class LocalIndex:
    """A file that several terminals share. Only its owner can read it."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def of(self, agent: str) -> list[IndexEntry]:
        """Return the conversations with an agent, the newest first."""
        found = [entry for entry in self._read() if entry.agent == agent]
        return sorted(found, key=lambda entry: -entry.used)

    def record(self, entry: IndexEntry) -> None:
        """Add a conversation, or update its last use and cost. Its title stays, unless it had none."""
        with self._locked():
            known = self._read()
            same = [each for each in known if (each.agent, each.context_id) == (entry.agent, entry.context_id)]
            title = next((each.title for each in same if each.title), "") or one_line(entry.title, TITLE_LENGTH)
            self._write([replace(entry, title=title), *(each for each in known if each not in same)])

    def rename(self, agent: str, context_id: str, title: str) -> bool:
        """Change a title. Return False if the index does not have the conversation."""
        with self._locked():
            known = self._read()
            same = [each for each in known if (each.agent, each.context_id) == (agent, context_id)]
            named = [replace(each, title=one_line(title, TITLE_LENGTH)) for each in same]
            self._write([*named, *(each for each in known if each not in same)])
            return bool(same)

    def _read(self) -> list[IndexEntry]:
        """Return the entries. A damaged file counts as empty, and entries of another shape are left out."""
        try:
            with self._path.open("rb") as file:
                document = json.loads(file.read(_LARGEST))
        except (OSError, ValueError):
            return []
        listed = document.get("conversations") if isinstance(document, dict) else None
        return [entry for each in listed or () if (entry := _entry(each)) is not None]

    def _write(self, entries: list[IndexEntry]) -> None:
        kept = sorted(entries, key=lambda entry: -entry.used)[:_MOST]
        document = {"version": 1, "conversations": [asdict(entry) for entry in kept]}
        # mkstemp creates the file with mode 0600.
        descriptor, name = tempfile.mkstemp(dir=self._path.parent, prefix=".conversations-")
        try:
            with os.fdopen(descriptor, "w") as file:
                json.dump(document, file, indent=1)
            Path(name).replace(self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self._path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _entry(value: Any) -> IndexEntry | None:
    if not isinstance(value, dict):
        return None
    texts = [value.get(key) for key in ("agent", "context_id", "title", "cost_usd")]
    agent, context_id, title, cost = (text if isinstance(text, str) else None for text in texts)
    used = value.get("used")
    if agent is None or context_id is None or title is None or cost is None or not isinstance(used, int | float):
        return None
    return IndexEntry(agent, context_id, title, float(used), cost)
