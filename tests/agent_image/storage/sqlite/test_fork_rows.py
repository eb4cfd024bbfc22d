"""The rows by which an erasure finds the forks of a conversation."""

import sqlite3
from itertools import pairwise
from pathlib import Path

from fleetwright_agent.storage.sqlite.conversations.schema import FILE
from fleetwright_agent.storage.sqlite.storage import sqlite_storage


async def test_fork_has_one_row(tmp_path: Path) -> None:
    """A fork of a fork does not repeat the sources of its source. Otherwise, a chain takes quadratic space."""
    chain = [f"ctx-{number:02}" for number in range(40)]
    storage = sqlite_storage(tmp_path)
    for source, fork in pairwise(chain):
        await storage.conversations.fork("a", fork, source=source)
    assert await storage.conversations.forks("a", chain[0]) == chain[1:]
    await storage.file.aclose()
    with sqlite3.connect(tmp_path / FILE) as db:
        assert db.execute("SELECT count(*) FROM forks").fetchone() == (len(chain) - 1,)
    db.close()
