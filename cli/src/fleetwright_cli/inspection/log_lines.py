"""The log lines of one task across its agents. Pure.

A line belongs to the task if it names the task, or a task that an agent has begun for it at a peer. A search for a
conversation or a trace finds all of its tasks.
"""

import json
from collections.abc import Mapping, Set
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from fleetwright_api.encoding.untrusted_json import read_json
from fleetwright_cli.cluster.tables import visible

SHORTEST: Final = 8
"""The fewest characters of an id that are accepted instead of the whole id; `tasks` shows this many."""
_LONGEST_ID: Final = 256
_BEGINNING: Final = "task accepted"
_STARTS: Final = frozenset({_BEGINNING, "task continues"})
"""The messages of the line that an agent of the project's image writes when it starts to work on a message."""
_ENDED: Final = frozenset({"completed", "failed", "canceled", "rejected"})
"""The values of `state` in the last line of a task."""
_COMMON: Final = ("time", "level", "logger", "message")
_LONGEST: Final = 200


class LoggingAgent(NamedTuple):
    """An agent whose log lines are read."""

    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AgentLogLine:
    """One line of an agent's log."""

    agent: str
    namespace: str
    pod: str
    fields: Mapping[str, Any]

    @property
    def source(self) -> LoggingAgent:
        return LoggingAgent(self.namespace, self.agent)

    @property
    def time(self) -> str:
        return str(self.fields.get("time", ""))

    @property
    def message(self) -> str:
        return self.text_field("message")

    @property
    def task(self) -> str:
        """The id of the task; empty if the line names none, or something too long to be an id."""
        found = self.text_field("task")
        return found if len(found) <= _LONGEST_ID else ""

    @property
    def at(self) -> float:
        """The time in seconds since the epoch; 0 for a line without a valid time."""
        try:
            return datetime.fromisoformat(self.time).timestamp()
        except ValueError:
            return 0.0

    @property
    def document(self) -> dict[str, Any]:
        return {"agent": self.agent, "namespace": self.namespace, "pod": self.pod, **self.fields}

    def text_field(self, name: str) -> str:
        """Return a field; empty if it is missing or no text, because a container may write any JSON."""
        value = self.fields.get(name)
        return value if isinstance(value, str) else ""

    def text(self, width: int) -> str:
        """Return the line for people. Args: `width` is that of the column of agents."""
        rest = [f"{key}={_short(value)}" for key, value in self.fields.items() if key not in _COMMON]
        level = str(self.fields.get("level", ""))
        parts = (self.time[:23], self.agent.ljust(width), level.ljust(7), str(self.fields.get("message", "")), *rest)
        return visible("  ".join(part for part in parts if part)).rstrip()


def parse_line(text: bytes, *, agent: str, namespace: str, pod: str) -> AgentLogLine | None:
    """Return the line, or None if it is not a JSON object, such as output of another library."""
    try:
        fields = read_json(text)
    except ValueError:
        return None
    return AgentLogLine(agent, namespace, pod, fields) if isinstance(fields, dict) else None


class TaskTrail:
    """Finds the lines of a task, of a conversation or of a trace among the lines of all agents."""

    def __init__(self, wanted: str) -> None:
        """Args: `wanted` is an id, or the beginning of one."""
        self._wanted = wanted
        self._tasks: set[str] = set()
        self._agents: dict[str, LoggingAgent] = {}
        """The agent of each task of which there is a line."""
        self._peer_tasks: dict[str, LoggingAgent] = {}
        """The peer of each task that an agent has begun at a peer."""
        self._logs_starts: set[LoggingAgent] = set()
        """The agents of which any line says that they start to work on a message."""
        self._begun: set[str] = set()
        """The tasks of which the first line was found."""
        self._named: set[str] = set()
        """The tasks whose own id was searched for."""
        self._ended: set[str] = set()

    @property
    def has_ended(self) -> bool:
        """True if the search was for tasks, and they have ended. A conversation and a trace may always continue."""
        return bool(self._named) and self._named <= self._ended

    @property
    def incomplete_tasks(self) -> Mapping[str, LoggingAgent]:
        """The agent of each found task whose first line is missing. Logs lose their oldest lines first.

        An agent that never logs the start of a task, such as one of an own image, has no incomplete task.
        """
        return {
            task: agent
            for task, agent in self._agents.items()
            if task not in self._begun and agent in self._logs_starts
        }

    @property
    def unseen_peer_tasks(self) -> Mapping[str, LoggingAgent]:
        """The peer of each task that an agent has begun at it, and of which no line was found."""
        return {task: peer for task, peer in self._peer_tasks.items() if task not in self._agents}

    def select_known(self, tasks: Set[str]) -> Set[str]:
        """Return those of the tasks that are already known to belong to the search."""
        return self._tasks & tasks

    def learn_line(self, line: AgentLogLine) -> bool:
        """Return whether a line is known to belong to the search, and learn the ids of further tasks from it.

        The trail stores no line. If a later line shows that this one belongs too, `select_known` returns its task, and
        the caller reads the log again.
        """
        if line.message in _STARTS:
            self._logs_starts.add(line.source)
        task, peer_task = line.task, line.text_field("peerTask")
        named = (task, line.text_field("context"), line.text_field("traceId"))
        if task not in self._tasks and not any(map(self._is_wanted, named)):
            return False
        self._tasks |= {each for each in (task, peer_task) if each}
        if task:
            self._note(task, line)
        if peer_task:
            namespace, _, name = line.text_field("peer").rpartition("/")
            self._peer_tasks[peer_task] = LoggingAgent(namespace, name)
        return True

    def _note(self, task: str, line: AgentLogLine) -> None:
        self._agents.setdefault(task, line.source)
        if self._is_wanted(task):
            self._named.add(task)
        if line.message == _BEGINNING:
            self._begun.add(task)
        if line.text_field("state") in _ENDED:
            self._ended.add(task)

    def _is_wanted(self, value: str) -> bool:
        return value.startswith(self._wanted)


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
