"""Takes out of conversations what they were told of others: a conversation begins with what earlier ones were about.

Imports the serializer of checkpoints; whoever needs it imports this late. Refuses: touching what was said in them.
"""

import sqlite3
from typing import Final

from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from fleetwright_agent.storage.sqlite.conversations import threads

CHANNEL: Final = "prior_sessions"


def forget_hearsay(db: sqlite3.Connection, owner: str) -> None:
    """In all conversations of the owner: which of them tells of which other is not known."""
    serde = JsonPlusSerializer(allowed_msgpack_modules=None)
    values = threads.below(owner)
    db.execute(f"DELETE FROM writes WHERE channel = :channel AND {threads.BELOW}", values | {"channel": CHANNEL})  # noqa: S608 - names are ours
    places = db.execute(f"SELECT thread, ns FROM checkpoints WHERE {threads.BELOW}", values).fetchall()  # noqa: S608 - names are ours
    for place in places:
        kind, body = db.execute("SELECT kind, body FROM checkpoints WHERE thread = ? AND ns = ?", place).fetchone()
        checkpoint = serde.loads_typed((kind, body))
        if checkpoint["channel_values"].pop(CHANNEL, None):
            kept = serde.dumps_typed(checkpoint)
            db.execute("UPDATE checkpoints SET kind = ?, body = ? WHERE thread = ? AND ns = ?", (*kept, *place))
