"""Facts in SQLite files, one file for each owner.

Search and ranking for one caller never read another caller's facts. The search uses FTS5 and BM25. It starts with rare
words, so that its time is bounded.
"""

import sqlite3
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from fleetwright_agent.storage.facts import Fact, TooManyFacts
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.sqlite.engine.owner_databases import OwnerDatabases
from fleetwright_agent.storage.tokenizer import MOST, quoted, words

FOLDER: Final = "knowledge"
_PLACES: Final = 400
"""The largest number of facts that a search ranks."""
_COMMON: Final = 3
"""The number of words that a fact must contain if every word of the question occurs in more than 400 facts.

A fact must contain all words of a question that has fewer words.
"""
SCHEMA: Final = (
    """
CREATE TABLE facts (
  n INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT NOT NULL UNIQUE, hot INTEGER NOT NULL,
  said_by TEXT NOT NULL, context TEXT NOT NULL, task TEXT NOT NULL, at REAL NOT NULL);
CREATE INDEX facts_hot ON facts (at) WHERE hot = 1;
CREATE INDEX facts_by_context ON facts (context);
CREATE VIRTUAL TABLE words USING fts5 (
  text, content = 'facts', content_rowid = 'n', tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER fact_added AFTER INSERT ON facts BEGIN
  INSERT INTO words (rowid, text) VALUES (new.n, new.text); END;
CREATE TRIGGER fact_gone AFTER DELETE ON facts BEGIN
  INSERT INTO words (words, rowid, text) VALUES ('delete', old.n, old.text); END;
""",
)


class SqliteFactStore:
    """The facts of all owners. Each call reads or writes the facts of one owner."""

    def __init__(self, folder: Path, *, now: Callable[[], float], lock: MemoryLock | None = None) -> None:
        """Args: `lock` is that of the memory volume; see `Database`."""
        self._files = OwnerDatabases(folder, SCHEMA, lock=lock)
        self._now = now

    async def remember(self, owner: str, text: str, source: Provenance, *, hot: bool, most: int) -> int:
        """Store a fact and return its number. The same text again updates the existing fact.

        Raises:
            TooManyFacts: The owner has `most` other facts.
            MemoryUnusable: Nothing is remembered.
        """
        row = (text, hot, source.said_by, source.context_id, source.task_id, self._now())
        return await (await self._files.of(owner)).run(lambda db: _remember(db, row, most))

    async def recall(self, owner: str, question: str, *, most: int) -> list[Fact]:
        """Return the best matches for the question, the best first."""
        if not self._files.has(owner):
            return []
        return await (await self._files.of(owner)).read(lambda db: _recall(db, question, most))

    async def hot(self, owner: str, *, characters: int) -> list[Fact]:
        """Return the newest facts that are included in every turn, as many as fit into `characters`."""
        if not self._files.has(owner):
            return []
        rows = await (await self._files.of(owner)).read(lambda db: db.execute(_HOT, (characters,)).fetchall())
        facts: list[Fact] = []
        for fact in map(_fact, rows):
            characters -= len(fact.text)
            if characters < 0:
                break
            facts.append(fact)
        return facts

    async def forget(self, owner: str, n: int) -> bool:
        """Delete a fact, and return whether it existed."""
        if not self._files.has(owner):
            return False
        delete = "DELETE FROM facts WHERE n = ?"
        return await (await self._files.of(owner)).run(lambda db: db.execute(delete, (n,)).rowcount == 1)

    async def facts(self, owner: str, context_id: str = "") -> list[Fact]:
        """Return all facts, or those of one conversation, in the order of their numbers."""
        if not self._files.has(owner):
            return []
        select = f"{_SELECT} WHERE :context IN ('', context) ORDER BY n"
        rows = await (await self._files.of(owner)).read(
            lambda db: db.execute(select, {"context": context_id}).fetchall()
        )
        return [_fact(row) for row in rows]

    async def erase(self, owner: str, context_id: str = "") -> None:
        """Erase the facts, and remove all traces of them from the files."""
        await self._files.erase(owner, context_id, _erase)

    async def aclose(self) -> None:
        await self._files.aclose()


_SELECT: Final = "SELECT n, text, hot, said_by, context, task, at FROM facts"
_HOT: Final = f"{_SELECT} WHERE hot = 1 ORDER BY at DESC, n DESC LIMIT ?"
_RANKED: Final = (
    f"{_SELECT} JOIN (SELECT rowid AS found, bm25(words) AS rank FROM words WHERE words MATCH ?"  # noqa: S608 - interpolates only constants
    " ORDER BY rank LIMIT ?) ON n = found ORDER BY rank, n DESC"
)
_NEWEST: Final = (
    f"{_SELECT} JOIN (SELECT rowid AS found FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?) ON n = found"  # noqa: S608 - same
    " ORDER BY n DESC"
)


def _fact(row: Sequence[object]) -> Fact:
    n, text, hot, said_by, context, task, at = row
    return Fact(int(str(n)), str(text), bool(hot), Provenance(str(said_by), str(context), str(task)), float(str(at)))


def _remember(db: sqlite3.Connection, row: tuple[object, ...], most: int) -> int:
    known = db.execute("SELECT n FROM facts WHERE text = ?", row[:1]).fetchone()
    if known is not None:
        _, *rest = row
        db.execute("UPDATE facts SET hot=?, said_by=?, context=?, task=?, at=? WHERE n=?", (*rest, known[0]))
        return int(known[0])
    if db.execute("SELECT count(*) FROM facts").fetchone()[0] >= most:
        raise TooManyFacts
    insert = "INSERT INTO facts (text, hot, said_by, context, task, at) VALUES (?,?,?,?,?,?) RETURNING n"
    return int(db.execute(insert, row).fetchone()[0])


def _recall(db: sqlite3.Connection, question: str, most: int) -> list[Fact]:
    rare, common = _told_apart(db, question)
    if rare:
        rows = db.execute(_RANKED, (" OR ".join(rare), most)).fetchall()
    elif common:
        rows = db.execute(_NEWEST, (" AND ".join(common), most)).fetchall()
    else:
        return []
    return [_fact(row) for row in rows]


def _told_apart(db: sqlite3.Connection, question: str) -> tuple[list[str], list[str]]:
    """Return the question's rarest words that together occur in at most 400 facts, and the next three by rarity.

    A frequent word distinguishes few facts, and SQLite would read and rank every fact that contains it.
    """
    count = "SELECT count(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
    asked = quoted(words(question)[:MOST])
    counted = ((int(db.execute(count, (word, _PLACES + 1)).fetchone()[0]), word) for word in asked)
    standing = sorted((places, word) for places, word in counted if places)
    rare: list[str] = []
    room = _PLACES
    for places, word in standing:
        room -= places
        if room < 0:
            break
        rare.append(word)
    return rare, [word for _, word in standing[len(rare) :]][:_COMMON]


def _erase(db: sqlite3.Connection, context_id: str) -> None:
    db.execute("DELETE FROM facts WHERE context = ?", (context_id,))
    # FTS5 keeps the text of deleted rows until its segments are merged.
    db.execute("INSERT INTO words (words) VALUES ('rebuild')")
