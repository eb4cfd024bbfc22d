"""The number of conversations whose compaction has failed several times in a row.

This module is separate from `views.py`, which imports LangGraph, so that maintenance does not need this import.
"""

from typing import Final

from fleetwright_agent.storage.sqlite.engine.database import Database

FAILURES: Final = "json_extract(body, '$.failures')"
"""The indexed SQL expression for the number of failed attempts since the last success, in a stored view."""


async def count_failing_compactions(database: Database, *, at_least: int) -> int:
    """Return how many conversations have had that many failed attempts since the last success.

    Raises:
        MemoryUnusable: The file cannot be read.
    """
    query = f"SELECT count(*) FROM views WHERE {FAILURES} >= ?"  # noqa: S608 - interpolates only constants
    found = await database.read(lambda db: db.execute(query, (at_least,)).fetchone())
    return int(found[0])
