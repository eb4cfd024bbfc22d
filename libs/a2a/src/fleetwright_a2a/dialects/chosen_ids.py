"""Ids of tasks that callers of A2A 0.1 choose, at an agent that chooses the ids of its tasks itself.

The chosen id is not stored anywhere. It is hashed into the ids of the messages that the caller sends to the task, and
the agent keeps these messages in the history of the task. A task is therefore found by its history. Pure.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from a2a.types.a2a_pb2 import Message, Task, TaskState, TaskStatus

from fleetwright_a2a.http.envelope import RequestId

RETRANSMISSION_NS: Final = 60 * 1_000_000_000
"""A repeated message counts as a retransmission for this time after the task has begun to wait."""
SAID_BEFORE: Final = (
    "A request with this id has already sent this message to the task. Answer the agent's question in a request with a"
    " new id, and not with the message that began the task"
)
"""The error for a message that is too late to be a retransmission."""
_HALF = 32


def _hash(*values: object) -> str:
    return hashlib.sha256(json.dumps(values).encode()).hexdigest()[:_HALF]


def is_too_late(task: Task, *, now_ns: int) -> bool:
    """Return whether a repeated message to the task is too late to be a retransmission.

    The answer is no if the status has no time. It is also no for a task that waits for an authorization, because its
    work may continue meanwhile.
    """
    if task.status.state != TaskState.TASK_STATE_INPUT_REQUIRED or not task.status.HasField("timestamp"):
        return False
    return now_ns - task.status.timestamp.ToNanoseconds() > RETRANSMISSION_NS


@dataclass(frozen=True, slots=True)
class ChosenId:
    """An id that a caller has chosen for a task.

    Equal ids of two callers, or at two agents, have different keys.
    """

    text: str
    key: str

    @classmethod
    def of(cls, text: str, *, caller: str, agent: str) -> "ChosenId":
        return cls(text, _hash(caller, agent, text))

    @property
    def context_id(self) -> str:
        """The conversation of a task whose caller names none."""
        return self.key

    def message_id(self, message: Message, request_id: RequestId, *, task: Task | None, random: str) -> str:
        """Return the id of a message to the task; a repeated message has the id of the original.

        A2A 0.1 has no ids of messages, so a message is recognised by the id of its request and by its content. A
        request id that the caller has used for another message of the task identifies no message.

        Args:
            message: The message, in the form of A2A 1.0.
            request_id: The id of the JSON-RPC request.
            task: The task so far; None if the message is the first one.
            random: A random text for messages that cannot be recognised.
        """
        content = Message(role=message.role, parts=message.parts)
        called = f"{self.key}-{_hash(request_id)}-"
        found = f"{called}{_hash(content.SerializeToString(deterministic=True).hex())}"
        known = {said.message_id for said in (task.history if task else ())}
        is_reused = any(each.startswith(called) and each != found for each in known)
        return f"{called}{random}" if request_id is None or is_reused else found

    def find(self, tasks: Iterable[Task]) -> Task | None:
        """Return the task that the caller has started under this id."""
        prefix = f"{self.key}-"
        return next(
            (task for task in tasks if any(said.message_id.startswith(prefix) for said in task.history)),
            None,
        )

    def answered(self, reply: Message, *, context_id: str) -> Task:
        """Return the task for an answer that is a message instead of a task."""
        status = TaskStatus(state=TaskState.TASK_STATE_COMPLETED, message=reply)
        return Task(id=self.text, context_id=reply.context_id or context_id, status=status)
