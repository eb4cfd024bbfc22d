"""The undo store: what tools changed in the last turns, and the former contents of these files.

The journal has one line for each change, written before the change. Former contents are files named by their digest.
The store is not synchronised to disk, because it must not slow down edits. After a power failure a turn may be
impossible to undo. A content whose digest is wrong is never restored.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Collection, Iterable
from typing import NamedTuple

from fleetwright_workspace.files.digest import digest
from fleetwright_workspace.files.undo_reports import UndoReports

MOST_TURNS = 50
MOST_BYTES = 256 * 1024 * 1024
LONGEST_TURN = 200


class RecordedChange(NamedTuple):
    turn: str
    path: str
    before: str
    """The digest of the former content; empty if the file did not exist."""
    mode: int
    after: str
    number: int = 0
    """Its place among the changes of all turns. The store sets it."""


class UndoStore:
    def __init__(self, folder: str, *, most_bytes: int = MOST_BYTES) -> None:
        self._journal = os.path.join(folder, "journal.jsonl")
        self._contents = os.path.join(folder, "contents")
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        os.makedirs(self._contents, mode=0o700, exist_ok=True)
        self.reports = UndoReports(folder)
        self._turns: dict[str, list[RecordedChange]] = {}
        self._newest = 0
        self._size = sum(entry.stat().st_size for entry in os.scandir(self._contents))
        for turn, change in _journal_lines(self._journal):
            changes = self._turns.setdefault(turn, [])
            if change is not None:
                changes.append(change)
                self._newest = max(self._newest, change.number)
        self._prune()

    def begin(self, turn: str) -> None:
        """Begin a turn. A turn that began already continues."""
        with self._lock:
            self._begin(turn)

    def record(self, change: RecordedChange, former: bytes | None) -> None:
        """Record a change that is about to happen, with the former content of the file."""
        with self._lock:
            self._begin(change.turn)
            if former is not None:
                self._keep(change.before, former)
            self._newest += 1
            change = change._replace(number=self._newest)
            self._append(change._asdict())
            self._turns[change.turn].append(change)
            if self._size > self._most_bytes:
                self._prune()

    def changes(self, turns: Collection[str]) -> list[RecordedChange]:
        """Return the changes of these turns in the order in which they happened."""
        with self._lock:
            found = [change for name, changes in self._turns.items() if name in turns for change in changes]
        return sorted(found, key=lambda change: change.number)

    def last_paths(self) -> list[str]:
        """Return the files of the newest turn. The process may have ended while it replaced one of them."""
        with self._lock:
            turns = list(self._turns.values())
            return [change.path for change in turns[-1]] if turns else []

    def content(self, wanted: str) -> bytes | None:
        """Return a former content; None if it is missing or damaged."""
        try:
            with open(os.path.join(self._contents, wanted), "rb") as file:
                data = file.read()
        except OSError:
            return None
        return data if digest(data) == wanted else None

    def forget(self, turns: Collection[str], paths: Iterable[str]) -> None:
        """Forget the changes of these files in these turns, after they were restored."""
        with self._lock:
            gone = set(paths)
            for name in self._turns.keys() & set(turns):
                self._turns[name] = [change for change in self._turns[name] if change.path not in gone]
            self._prune()

    def _begin(self, turn: str) -> None:
        if turn in self._turns:
            return
        self._turns[turn] = []
        self._append({"turn": turn})
        if len(self._turns) > MOST_TURNS:
            self._prune()

    def _keep(self, name: str, data: bytes) -> None:
        path = os.path.join(self._contents, name)
        if os.path.exists(path):
            return
        fresh = f"{path}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(data)
        os.replace(fresh, path)
        self._size += len(data)

    def _append(self, line: dict[str, object]) -> None:
        with open(os.open(self._journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), "a") as file:
            file.write(json.dumps(line) + "\n")

    def _prune(self) -> None:
        """Drop the oldest turns beyond the limits, and contents that no turn needs. Write the journal anew."""
        while len(self._turns) > MOST_TURNS:
            del self._turns[next(iter(self._turns))]
        sizes = {entry.name: entry.stat().st_size for entry in os.scandir(self._contents)}
        while len(self._turns) > 1 and self._needed(sizes) > self._most_bytes:
            del self._turns[next(iter(self._turns))]
        kept = self._digests()
        for name in sizes.keys() - kept:
            os.unlink(os.path.join(self._contents, name))
        self._size = self._needed(sizes)
        fresh = f"{self._journal}.new"
        with open(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            for turn, changes in self._turns.items():
                file.write(json.dumps({"turn": turn}) + "\n")
                file.writelines(json.dumps(change._asdict()) + "\n" for change in changes)
        os.replace(fresh, self._journal)

    def _digests(self) -> set[str]:
        return {change.before for changes in self._turns.values() for change in changes if change.before}

    def _needed(self, sizes: dict[str, int]) -> int:
        return sum(sizes.get(name, 0) for name in self._digests())


def _journal_lines(path: str) -> Iterable[tuple[str, RecordedChange | None]]:
    """Yield the lines of the journal. A line that a crash cut is omitted."""
    try:
        with open(path) as file:
            lines = file.readlines()
    except FileNotFoundError:
        return
    for line in lines:
        try:
            fields = json.loads(line)
            yield fields["turn"], RecordedChange(**fields) if "path" in fields else None
        except (ValueError, TypeError, KeyError):
            continue
