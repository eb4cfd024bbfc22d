"""Removes the summaries of earlier conversations from an owner's stored conversations.

This module imports the checkpoint serializer, which is slow to import. Callers therefore import this module only when
they need it. It does not change the messages of a conversation.
"""

import sqlite3

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.conversations import PRIOR_SESSIONS
from fleetwright_agent.storage.sqlite.conversations import threads


def scrub_prior_sessions(db: sqlite3.Connection, owner: str) -> None:
    """Remove the summaries from all of the owner's conversations.

    All summaries are removed, because no record says which summary mentions which conversation.
    """
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    values = threads.below(owner)
    db.execute(f"DELETE FROM writes WHERE channel = :channel AND {threads.BELOW}", values | {"channel": PRIOR_SESSIONS})  # noqa: S608 - interpolates only constants
    places = db.execute(f"SELECT thread, ns FROM checkpoints WHERE {threads.BELOW}", values).fetchall()  # noqa: S608 - interpolates only constants
    for place in places:
        kind, body = db.execute("SELECT kind, body FROM checkpoints WHERE thread = ? AND ns = ?", place).fetchone()
        checkpoint = serde.loads_typed((kind, body))
        if checkpoint["channel_values"].pop(PRIOR_SESSIONS, None):
            kept = serde.dumps_typed(checkpoint)
            db.execute("UPDATE checkpoints SET kind = ?, body = ? WHERE thread = ? AND ns = ?", (*kept, *place))
