"""A conversation as people read it: messages, tool calls, and the summary of its older part.

This module is read-only. It imports LangGraph's messages, so callers import it only when they need a transcript.
"""

import json
import sqlite3

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.checkpoints import message_of, readable_message
from fleetwright_agent.storage.conversations import Transcript, conversation
from fleetwright_agent.storage.sqlite.conversations import threads
from fleetwright_agent.storage.sqlite.engine.database import Database


async def transcript(database: Database, owner: str, context_id: str) -> list[Transcript]:
    """Return the transcripts of the conversation and of its tasks' separate threads."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    values = threads.below(conversation(owner, context_id))

    def read(db: sqlite3.Connection) -> list[Transcript]:
        names = db.execute(f"SELECT thread FROM checkpoints WHERE {threads.BELOW} ORDER BY thread", values).fetchall()  # noqa: S608 - interpolates only constants
        return [_read(db, serde, name) for (name,) in names]

    return await database.run(read)


def _read(db: sqlite3.Connection, serde: JsonPlusSerializer, thread: str) -> Transcript:
    rows = db.execute("SELECT id, kind, body FROM messages WHERE thread = ? ORDER BY position", (thread,)).fetchall()
    view = db.execute("SELECT body FROM views WHERE thread = ?", (thread,)).fetchone()
    _, context_id, *task = thread.split("\n")
    return {
        "contextId": context_id,
        **({"taskId": task[0]} if task else {}),
        "messages": [readable_message(message_of(serde, *row)) for row in rows],
        **({"view": json.loads(view[0])} if view else {}),
    }
