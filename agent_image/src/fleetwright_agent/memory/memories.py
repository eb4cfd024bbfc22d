"""The stores of a turn on one database. This module does not open or close the database."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_agent.memory.checkpoints import ConversationSaver
from fleetwright_agent.memory.database import Database
from fleetwright_agent.memory.journal import Journal
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.memory.spending import Spending
from fleetwright_agent.memory.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class Memories:
    saver: ConversationSaver
    journal: Journal
    spending: Spending
    sessions: Sessions
    views: Views


def memories(
    conversations: Database, *, redact: Callable[[str], str], session_lost: Callable[[], None] = lambda: None
) -> Memories:
    """Args:
    redact: Removes secrets from text that later prompts include.
    session_lost: Counts a session row that could not be written.
    """
    return Memories(
        saver=ConversationSaver(conversations),
        journal=Journal(conversations),
        spending=Spending(conversations),
        sessions=Sessions(conversations, redact=redact, lost=session_lost),
        views=Views(conversations),
    )
