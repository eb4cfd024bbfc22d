"""The stores of a turn. This module does not open or close them."""

from collections.abc import Callable
from dataclasses import dataclass

from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.storage.checkpoints import ConversationSaver
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.tool_journal import ToolJournal
from fleetwright_agent.storage.usage import InflightUsage
from fleetwright_agent.turn.views import Views


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnStorage:
    saver: ConversationSaver
    journal: ToolJournal
    spending: InflightUsage
    sessions: Sessions
    views: Views


def turn_storage(
    storage: Storage, *, redact: Callable[[str], str], session_lost: Callable[[], None] = lambda: None
) -> TurnStorage:
    """Args:
    redact: Removes secrets from text that later prompts include.
    session_lost: Counts a session row that could not be written.
    """
    return TurnStorage(
        saver=storage.checkpoints(),
        journal=storage.journal,
        spending=storage.inflight,
        sessions=Sessions(storage.sessions, redact=redact, lost=session_lost),
        views=Views(storage.views()),
    )
