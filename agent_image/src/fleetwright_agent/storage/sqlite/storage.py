"""Builds the stores of an agent on SQLite files in one folder."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fleetwright_agent.storage.memory_lock import MemoryLock
from fleetwright_agent.storage.sqlite import facts, learned_skills, open_calls_file
from fleetwright_agent.storage.sqlite.call_windows import SqliteCallWindows
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.conversations.sessions import SqliteSessionStore
from fleetwright_agent.storage.sqlite.conversations.store import SqliteConversationStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.erasures import SqliteErasures
from fleetwright_agent.storage.sqlite.grants import SqliteGrantStore
from fleetwright_agent.storage.sqlite.inflight_usage import SqliteInflightUsage
from fleetwright_agent.storage.sqlite.open_questions import SqliteDelegatedTasks, SqliteOpenQuestions
from fleetwright_agent.storage.sqlite.owner_data import SqliteOwnerData
from fleetwright_agent.storage.sqlite.peer_calls import SqlitePeerCalls
from fleetwright_agent.storage.sqlite.tool_journal import SqliteToolJournal
from fleetwright_agent.storage.sqlite.usage_store import SqliteUsageStore
from fleetwright_agent.storage.sqlite.workspace import SqliteWorkspaceStore
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.storage.views import ViewStore

if TYPE_CHECKING:
    from fleetwright_agent.storage.checkpoints import ConversationSaver


def sqlite_storage(
    folder: Path,
    *,
    now: Callable[[], float] = time.time,
    now_ns: Callable[[], int] = time.time_ns,
    conversations: Database | None = None,
    lock: MemoryLock | None = None,
) -> Storage:
    """Return the stores, without opening any file.

    Args:
        now: Seconds since the epoch.
        now_ns: Nanoseconds since the epoch, for the windows of rate-limited tools.
        conversations: The database of conversations, if it is not the file in the folder.
        lock: The lock without which no file is opened; None if no other process can use the folder.
    """
    database = conversations or Database(folder / schema.FILE, schema.SCHEMA, lock=lock)
    return Storage(
        file=database,
        conversations=SqliteConversationStore(database),
        owners=SqliteOwnerData(database),
        erasures=SqliteErasures(database),
        sessions=SqliteSessionStore(database),
        usage=SqliteUsageStore(database, now=now),
        inflight=SqliteInflightUsage(database),
        journal=SqliteToolJournal(database),
        call_windows=SqliteCallWindows(database, now_ns=now_ns),
        questions=SqliteOpenQuestions(database),
        delegated=SqliteDelegatedTasks(database),
        peer_calls=SqlitePeerCalls(database),
        grants=SqliteGrantStore(database, now=now),
        workspace=SqliteWorkspaceStore(database, now=now),
        facts=facts.SqliteFactStore(folder / facts.FOLDER, now=now, lock=lock),
        skills=learned_skills.SqliteLearnedSkillStore(folder / learned_skills.FOLDER, now=now, lock=lock),
        open_calls=open_calls_file.FileOpenModelCalls(folder / open_calls_file.FILE),
        checkpoints=lambda: _saver(database, now),
        views=lambda: _views(database),
    )


def _saver(database: Database, now: Callable[[], float]) -> "ConversationSaver":
    # Imported here, because the module imports LangGraph, which only the first task loads.
    from fleetwright_agent.storage.sqlite.conversations.checkpoints import SqliteConversationSaver

    return SqliteConversationSaver(database, now=now)


def _views(database: Database) -> ViewStore:
    # Imported here for the same reason as the saver.
    from fleetwright_agent.storage.sqlite.conversations.views import SqliteViewStore

    return SqliteViewStore(database)
