"""The stores of a turn on one database. This module does not open or close the database."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_agent.storage.sqlite.conversations.checkpoints import ConversationSaver
from fleetwright_agent.storage.sqlite.conversations.sessions import Sessions
from fleetwright_agent.storage.sqlite.conversations.views import ViewStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.inflight_usage import InflightUsage
from fleetwright_agent.storage.sqlite.tool_journal import ToolJournal
from fleetwright_agent.turn.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStorage:
    saver: ConversationSaver
    journal: ToolJournal
    spending: InflightUsage
    sessions: Sessions
    views: Views


def turn_storage(
    conversations: Database, *, redact: Callable[[str], str], session_lost: Callable[[], None] = lambda: None
) -> TurnStorage:
    """Args:
    redact: Removes secrets from text that later prompts include.
    session_lost: Counts a session row that could not be written.
    """
    return TurnStorage(
        saver=ConversationSaver(conversations),
        journal=ToolJournal(conversations),
        spending=InflightUsage(conversations),
        sessions=Sessions(conversations, redact=redact, lost=session_lost),
        views=Views(ViewStore(conversations)),
    )
