"""The common state of the in-memory stores, which share it as the SQLite stores share one file."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from fleetwright_agent.storage.erasures import PendingErasure
from fleetwright_agent.storage.facts import Fact
from fleetwright_agent.storage.learned_skills import LearnedSkill
from fleetwright_agent.storage.open_questions import DelegatedTask, OpenQuestion, PeerCall, QuestionKey
from fleetwright_agent.storage.sessions import Session
from fleetwright_agent.storage.tool_journal import JournalEntry
from fleetwright_agent.storage.usage import UsageSum
from fleetwright_agent.storage.workspace import FileVersion, Todo


@dataclass(slots=True)
class StoredMessage:
    id: str
    kind: str
    body: bytes


@dataclass(slots=True)
class StoredCheckpoint:
    """The newest checkpoint of a thread and namespace, encoded, with its messages apart."""

    id: str
    body: tuple[str, bytes]
    metadata: tuple[str, bytes]
    at: float
    messages: list[StoredMessage] = field(default_factory=list)


@dataclass(slots=True)
class StoredThread:
    checkpoints: dict[str, StoredCheckpoint] = field(default_factory=dict)
    """The newest checkpoint of each namespace."""
    writes: dict[tuple[str, str, str, int], tuple[str, str, bytes]] = field(default_factory=dict)
    """Channel, kind and body of each pending write, by namespace, checkpoint, task and position."""
    calls: dict[str, JournalEntry] = field(default_factory=dict)
    view: str | None = None
    archived: dict[str, float] = field(default_factory=dict)
    """The start of the retention time of the archived messages, by the id of the last of them."""
    grants: dict[tuple[str, str], float] = field(default_factory=dict)
    """The time of a grant, by tool and key."""
    files_read: dict[str, FileVersion] = field(default_factory=dict)
    """The version of each file of the workspace that the conversation has read, the newest last."""
    edits: dict[str, str] = field(default_factory=dict)
    """The digest that a file has after an edit, by the call that edits it, the newest last."""
    todos: tuple[Todo, ...] = ()
    title: str = ""

    @property
    def view_body(self) -> Any:
        return json.loads(self.view) if self.view else None


@dataclass(slots=True)
class MemoryTables:
    threads: dict[str, StoredThread] = field(default_factory=dict)
    sessions: dict[tuple[str, str], Session] = field(default_factory=dict)
    """The sessions by owner and conversation."""
    questions: dict[QuestionKey, OpenQuestion] = field(default_factory=dict)
    delegated: dict[DelegatedTask, None] = field(default_factory=dict)
    peer_calls: dict[str, PeerCall] = field(default_factory=dict)
    """The calls of peers by id, the oldest first."""
    forks: dict[tuple[str, str], set[str]] = field(default_factory=dict)
    """The direct sources of each fork, by owner and conversation."""
    usage: dict[tuple[int, int, str, str, str], UsageSum] = field(default_factory=dict)
    """The cost sums by process, hour, model, purpose and caller."""
    call_sizes: str | None = None
    """The sizes of the known model calls, as JSON."""
    task_outcomes: str | None = None
    """The outcomes of the last tasks, as JSON."""
    processes: int = 0
    inflight: dict[tuple[str, str], list[str]] = field(default_factory=dict)
    """The usage of running turns as lines of JSON, by owner and task."""
    ended: dict[tuple[str, str], float] = field(default_factory=dict)
    """The time at which a turn ended, by owner and task."""
    call_times: dict[str, list[int]] = field(default_factory=dict)
    erasures: list[tuple[PendingErasure, str | None]] = field(default_factory=list)
    """Each erasure with its receipt as JSON."""
    open_calls: dict[str, str] = field(default_factory=dict)
    """The records of running model calls as JSON, by call."""
    facts: dict[str, dict[int, Fact]] = field(default_factory=dict)
    """The facts by owner and number."""
    last_fact: int = 0
    skills: dict[str, dict[int, LearnedSkill]] = field(default_factory=dict)
    """The skills by owner and number."""
    last_skill: int = 0
    watchers: list[Callable[[], None]] = field(default_factory=list)

    def thread(self, name: str) -> StoredThread:
        """Return the thread of that name; it is created if it does not exist."""
        return self.threads.setdefault(name, StoredThread())

    def below(self, name: str) -> list[str]:
        """Return the thread of that name and the threads below it."""
        return sorted(each for each in self.threads if each == name or each.startswith(f"{name}\n"))

    def delete_below(self, name: str) -> None:
        for each in self.below(name):
            del self.threads[each]
        self.taken_out()

    def undelegate(self, owner: str, context_id: str = "") -> None:
        """Remove the delegated tasks and the calls of peers of an owner, or of one of its conversations."""
        for each in list(self.delegated):
            if each.owner == owner and context_id in ("", each.context_id):
                del self.delegated[each]
        for call in list(self.peer_calls.values()):
            if call.owner == owner and context_id in ("", call.context_id):
                del self.peer_calls[call.id]

    def unfork(self, owner: str, context_id: str = "") -> None:
        """Remove the sources of the forks of an owner, or of one fork."""
        self.forks = {
            place: sources
            for place, sources in self.forks.items()
            if place[0] != owner or context_id not in ("", place[1])
        }

    def taken_out(self) -> None:
        """Call the watchers after data was deleted or changed, so that they clear their caches."""
        for forget in self.watchers:
            forget()


def committed() -> "asyncio.Future[None]":
    """Return the future of a write that is done."""
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)
    return done
