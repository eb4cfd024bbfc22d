"""The state, text and costs that a peer reports in one task, within fixed bounds.

A peer's response must not exhaust this agent's memory: a long answer is truncated, and too many artifacts are an error.
"""

from collections.abc import Iterable, Iterator
from decimal import Decimal, InvalidOperation
from typing import Final

from a2a.types import Artifact, Message, Part, StreamResponse, Task, TaskState, TaskStatus

from fleetwright_a2a.extension_codec import read
from fleetwright_a2a.extensions import ASK, COST, HITL, TOOL_CALL
from fleetwright_agent.config.approvals import Approver
from fleetwright_agent.protocol.frames import InterruptKind

MOST_CHARACTERS: Final = 50_000
_MOST_ARTIFACTS: Final = 64
_LONGEST_ID: Final = 256
_SENTENCE: Final = 4000
_MOST_COST: Final = 1_000_000
_REPLY: Final = "message"
"""The artifact id for the text of a peer that answers with a message instead of a task."""


class ResponseTooLarge(Exception):  # noqa: N818 - describes the peer's response
    """The peer sent more artifacts, or a longer task id, than the limit."""


class PeerResponse:
    def __init__(self, task_id: str = "") -> None:
        self.task_id = task_id
        self.has_begun = False
        """True once the peer has sent an event."""
        self.state = TaskState.TASK_STATE_UNSPECIFIED
        self.wants_approval = False
        """True if the peer waits for the approval of a person, which an agent cannot give."""
        self.is_reviewed = False
        """True if the peer waits for people who decide without an answer to the task."""
        self._status_text = ""
        self._texts: dict[str, str] = {}
        self._costs: dict[str, Decimal] = {}
        self._last_cost: Decimal | None = None

    @property
    def text(self) -> str:
        return "".join(self._texts.values())[:MOST_CHARACTERS]

    @property
    def sentence(self) -> str:
        """The text of the newest status, shortened."""
        return self._status_text[:_SENTENCE]

    @property
    def answer(self) -> str:
        """The text of the artifacts. If they have none, the text of the newest status, in which some agents answer."""
        return self.text or self._status_text

    @property
    def costs(self) -> list[Decimal]:
        """The costs of all artifacts that have one, and the cost of the status."""
        last = () if self._last_cost is None else (self._last_cost,)
        return [*self._costs.values(), *last]

    def take(self, event: StreamResponse) -> None:
        """Raises: ResponseTooLarge."""
        self._take(event)
        if len(self.task_id) > _LONGEST_ID:
            self.task_id = ""
            raise ResponseTooLarge

    def _take(self, event: StreamResponse) -> None:
        self.has_begun = True
        kind = event.WhichOneof("payload")
        if kind == "task":
            self._begin(event.task)
        elif kind == "message":
            self.state = TaskState.TASK_STATE_COMPLETED
            self._hear(Artifact(artifact_id=_REPLY, parts=event.message.parts), append=False)
        elif kind == "status_update":
            self.task_id = event.status_update.task_id
            self._rest(event.status_update.status)
        elif kind == "artifact_update":
            self.task_id = event.artifact_update.task_id
            self._hear(event.artifact_update.artifact, append=event.artifact_update.append)

    def _begin(self, task: Task) -> None:
        self.task_id = task.id
        self._texts.clear()
        self._costs.clear()
        self._rest(task.status)
        for artifact in task.artifacts:
            self._hear(artifact, append=False)

    def _rest(self, status: TaskStatus) -> None:
        self.state = status.state
        self._status_text = "".join(_texts(status.message.parts))[:MOST_CHARACTERS]
        self.wants_approval = wants_approval(status)
        self.is_reviewed = self.wants_approval and (read(status.message, ASK) or {}).get("by") == Approver.REVIEWERS
        self._last_cost = _cost(status.message)

    def _hear(self, artifact: Artifact, *, append: bool) -> None:
        if read(artifact, TOOL_CALL):
            return  # A file from one of the peer's tools is not part of the peer's answer.
        name = artifact.artifact_id
        if name not in self._texts and len(self._texts) == _MOST_ARTIFACTS:
            raise ResponseTooLarge
        before = self._texts.get(name, "") if append else ""
        if len(before) < MOST_CHARACTERS:
            before = (before + "".join(_texts(artifact.parts)))[:MOST_CHARACTERS]
        self._texts[name] = before
        if (cost := _cost(artifact)) is not None:
            self._costs[name] = cost
        elif not append:
            self._costs.pop(name, None)


def wants_approval(status: TaskStatus) -> bool:
    """Return whether the peer waits for an approval.

    Fleetwright agents state this in metadata. For other agents, A2A's state AUTH_REQUIRED counts as an approval.
    """
    if status.state != TaskState.TASK_STATE_INPUT_REQUIRED:
        return status.state == TaskState.TASK_STATE_AUTH_REQUIRED
    asked = (read(status.message, ASK) or {}, read(status.message, HITL) or {})
    return any(each.get("kind") == InterruptKind.APPROVAL for each in asked)


def _texts(parts: Iterable[Part]) -> Iterator[str]:
    return (part.text for part in parts if part.text)


def _cost(source: Artifact | Message) -> Decimal | None:
    """Return the reported cost. A peer may report any number; an implausible one is ignored."""
    try:
        value = Decimal(str((read(source, COST) or {}).get("costUsd")))
    except InvalidOperation:
        return None
    return value if value.is_finite() and 0 <= value <= _MOST_COST else None
