"""All stores of an agent except its task log. `app.py` chooses the implementation.

In SQLite, the stores of conversations, usage, journals, grants, workspaces, questions, calls of peers, call windows,
sessions and erasures share one file. `StorageFile` reports the health of this file. Changes that must commit together
are one method of one port.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from fleetwright_agent.storage.call_windows import CallWindows
from fleetwright_agent.storage.conversations import ConversationStore
from fleetwright_agent.storage.erasures import Erasures, OwnerData
from fleetwright_agent.storage.facts import FactStore
from fleetwright_agent.storage.grants import GrantStore
from fleetwright_agent.storage.learned_skills import LearnedSkillStore
from fleetwright_agent.storage.open_model_calls import OpenModelCalls
from fleetwright_agent.storage.open_questions import DelegatedTasks, OpenQuestions, PeerCalls
from fleetwright_agent.storage.sessions import SessionStore
from fleetwright_agent.storage.tool_journal import ToolJournal
from fleetwright_agent.storage.usage import InflightUsage, UsageStore
from fleetwright_agent.storage.views import ViewStore
from fleetwright_agent.storage.workspace import WorkspaceStore

if TYPE_CHECKING:
    # For type checking only: the module imports LangGraph, which only the first task loads.
    from fleetwright_agent.storage.checkpoints import ConversationSaver


class StorageFile(Protocol):
    """The common file of the stores. Its methods raise MemoryUnusable, except `check` and `aclose`."""

    @property
    def problem(self) -> str | None:
        """Why the file is unreliable, for operators; `None` after a successful `check`."""

    async def check(self) -> None:
        """Verify that the file is intact and writable. `problem` holds the result."""

    async def shrink(self) -> None:
        """Return the space of deleted data to the file system."""

    async def scrub(self) -> None:
        """Remove all traces of deleted data from the file. While it runs, it needs the file's size in free space."""

    async def aclose(self) -> None:
        """Close the file after all earlier calls. Closing it again has no effect."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Storage:
    file: StorageFile
    conversations: ConversationStore
    owners: OwnerData
    erasures: Erasures
    sessions: SessionStore
    usage: UsageStore
    inflight: InflightUsage
    journal: ToolJournal
    call_windows: CallWindows
    questions: OpenQuestions
    delegated: DelegatedTasks
    peer_calls: PeerCalls
    grants: GrantStore
    workspace: WorkspaceStore
    facts: FactStore
    skills: LearnedSkillStore
    open_calls: OpenModelCalls
    checkpoints: "Callable[[], ConversationSaver]"
    """Builds the saver of a turn; it imports LangGraph."""
    views: Callable[[], ViewStore]
    """Builds the store of views; it imports LangGraph."""
