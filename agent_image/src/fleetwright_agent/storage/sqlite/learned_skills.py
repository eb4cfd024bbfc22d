"""Learned skills in SQLite files, one file for each owner. The search uses FTS5 and BM25."""

import json
import sqlite3
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Final

from fleetwright_agent.storage.learned_skills import CurationResult, LearnedSkill, Plan, SkillDraft
from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.provenance import Provenance
from fleetwright_agent.storage.sqlite.engine.owner_databases import OwnerDatabases
from fleetwright_agent.storage.tokenizer import MOST, quoted, words

FOLDER: Final = "skills"
_SHORT: Final = 4
"""Words with fewer characters are mostly frequent function words."""
SCHEMA: Final = (
    """
CREATE TABLE skills (
  n INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, description TEXT NOT NULL, template TEXT NOT NULL,
  tools TEXT NOT NULL, said_by TEXT NOT NULL, context TEXT NOT NULL, task TEXT NOT NULL, at REAL NOT NULL,
  used REAL NOT NULL, uses INTEGER NOT NULL);
CREATE INDEX skills_by_context ON skills (context, task);
CREATE VIRTUAL TABLE words USING fts5 (
  name, description, template, tools, content = 'skills', content_rowid = 'n',
  tokenize = 'unicode61 remove_diacritics 2');
CREATE TRIGGER skill_added AFTER INSERT ON skills BEGIN
  INSERT INTO words (rowid, name, description, template, tools)
    VALUES (new.n, new.name, new.description, new.template, new.tools); END;
CREATE TRIGGER skill_gone AFTER DELETE ON skills BEGIN
  INSERT INTO words (words, rowid, name, description, template, tools)
    VALUES ('delete', old.n, old.name, old.description, old.template, old.tools); END;
CREATE TRIGGER skill_changed AFTER UPDATE OF description, template, tools ON skills BEGIN
  INSERT INTO words (words, rowid, name, description, template, tools)
    VALUES ('delete', old.n, old.name, old.description, old.template, old.tools);
  INSERT INTO words (rowid, name, description, template, tools)
    VALUES (new.n, new.name, new.description, new.template, new.tools); END;
""",
)


class SqliteLearnedSkillStore:
    """The learned skills of all owners. Each call reads or writes the skills of one owner."""

    def __init__(self, folder: Path, *, now: Callable[[], float], lock: MemoryLock | None = None) -> None:
        """Args: `now` returns the seconds since the epoch. `lock` is that of the memory volume; see `Database`."""
        self._files = OwnerDatabases(folder, SCHEMA, lock=lock)
        self._now = now

    async def learn(self, owner: str, draft: SkillDraft, source: Provenance, *, most: int) -> bool:
        """Store a skill, and return whether it is new.

        If the owner has more than `most` skills, the least recently used skill is deleted.

        Raises:
            MemoryUnusable: Nothing is learned.
        """
        now = self._now()
        return await (await self._files.of(owner)).run(lambda db: _learn(db, draft, source, now, most))

    async def recall(self, owner: str, question: str, *, most: int) -> list[LearnedSkill]:
        """Return the best matches for the question, the best first."""
        if not self._files.has(owner):
            return []
        return await (await self._files.of(owner)).read(lambda db: _recall(db, question, most))

    async def told(self, owner: str, skills: Sequence[LearnedSkill]) -> None:
        """Record that a model was shown these skills."""
        if not skills or not self._files.has(owner):
            return
        uses = [(self._now(), skill.n) for skill in skills]
        await (await self._files.of(owner)).run(lambda db: _use(db, uses))

    async def skills(self, owner: str, *, context_id: str = "", task_id: str = "") -> list[LearnedSkill]:
        """Return all skills, or those of one conversation or task, in the order in which they were learned."""
        if not self._files.has(owner):
            return []
        values = {"context": context_id, "task": task_id}
        return await (await self._files.of(owner)).read(lambda db: _found(db, _OF, values))

    async def erase(self, owner: str, context_id: str = "") -> None:
        """Erase the skills, and remove all traces of them from the files."""
        await self._files.erase(owner, context_id, _erase)

    def owners(self) -> list[str]:
        """Return the keys of all owners with learned skills, for `curate`. This blocks; call it off the event loop."""
        return self._files.keys()

    async def curate(
        self, key: str, decide: Callable[[Sequence[LearnedSkill]], Plan], *, dry_run: bool
    ) -> CurationResult | None:
        """Plan the curation of one owner's skills, apply the plan unless `dry_run`, and return the plan.

        Return `None` if the owner has no skills. Raises: MemoryUnusable.
        """
        return await (await self._files.at(key)).run(lambda db: _curate(db, decide, dry_run=dry_run))

    async def aclose(self) -> None:
        await self._files.aclose()


_SELECT: Final = "SELECT n, name, description, template, tools, said_by, context, task, at, used, uses FROM skills"
_OF: Final = f"{_SELECT} WHERE :context IN ('', context) AND :task IN ('', task) ORDER BY n"
_RANKED: Final = (
    f"{_SELECT} JOIN (SELECT rowid AS found, bm25(words) AS rank FROM words WHERE words MATCH ?"  # noqa: S608 - interpolates only constants
    " ORDER BY rank LIMIT ?) ON n = found ORDER BY rank, n DESC"
)


def _found(db: sqlite3.Connection, query: str, values: dict[str, str] | tuple[object, ...] = ()) -> list[LearnedSkill]:
    return [_skill(row) for row in db.execute(query, values)]


def _skill(row: tuple[int, str, str, str, str, str, str, str, float, float, int]) -> LearnedSkill:
    n, name, description, template, tools, said_by, context, task, at, used, uses = row
    draft = SkillDraft(name, description, template, tuple(json.loads(tools)))
    return LearnedSkill(n, draft, Provenance(said_by, context, task), at, used, uses)


def _learn(db: sqlite3.Connection, draft: SkillDraft, source: Provenance, now: float, most: int) -> bool:
    row = (
        *(draft.description, draft.prompt_template, json.dumps(draft.tools_used)),
        *(source.said_by, source.context_id, source.task_id, now, now, draft.name),
    )
    again = (
        "UPDATE skills SET description=?, template=?, tools=?, said_by=?, context=?, task=?, at=?, used=? WHERE name=?"
    )
    if db.execute(again, row).rowcount:
        return False
    make_way = "DELETE FROM skills WHERE n IN (SELECT n FROM skills ORDER BY used DESC, n DESC LIMIT -1 OFFSET ?)"
    db.execute(make_way, (most - 1,))
    insert = (
        "INSERT INTO skills (description, template, tools, said_by, context, task, at, used, name, uses)"
        " VALUES (?,?,?,?,?,?,?,?,?,0)"
    )
    db.execute(insert, row)
    return True


def _recall(db: sqlite3.Connection, question: str, most: int) -> list[LearnedSkill]:
    asked = words(question)
    telling = [word for word in asked if len(word) >= _SHORT] or asked
    if not telling:
        return []
    return _found(db, _RANKED, (" OR ".join(quoted(telling[:MOST])), most))


def _use(db: sqlite3.Connection, uses: Sequence[tuple[float, int]]) -> None:
    db.executemany("UPDATE skills SET used = ?, uses = uses + 1 WHERE n = ?", uses)


def _erase(db: sqlite3.Connection, context_id: str) -> None:
    db.execute("DELETE FROM skills WHERE context = ?", (context_id,))
    # FTS5 keeps the text of deleted rows until its segments are merged.
    db.execute("INSERT INTO words (words) VALUES ('rebuild')")


def _curate(
    db: sqlite3.Connection, decide: Callable[[Sequence[LearnedSkill]], Plan], *, dry_run: bool
) -> CurationResult | None:
    skills = _found(db, f"{_SELECT} ORDER BY n")
    if not skills:
        return None
    plan = decide(skills)
    if not dry_run:
        _apply(db, plan)
    return CurationResult(skills[0].source.said_by, plan)


def _apply(db: sqlite3.Connection, plan: Plan) -> None:
    gone: Collection[LearnedSkill] = [*plan.pruned, *(merge.skill for merge in plan.merged)]
    db.executemany("DELETE FROM skills WHERE n = ?", [(skill.n,) for skill in gone])
    into = [(merge.skill.uses, merge.into) for merge in plan.merged]
    db.executemany("UPDATE skills SET uses = uses + ? WHERE name = ?", into)
