"""Answers that are a message instead of a task: how the internal task stores them, and how they are sent.

Separate from `sdk_executor`, so that agents without a third-party executor do not import what the SDK's executors need.
"""

from typing import Final

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_a2a.extensions import DIRECT_REPLY

HELD: Final = Task()
"""The placeholder at the start of a stream, until it is known whether the answer is a message; it is not sent."""


def is_held(event: object) -> bool:
    return isinstance(event, Task) and not event.id


def direct_reply(task: Task) -> Message | None:
    """Return the message that the executor gave as its answer; None if it worked on a task."""
    said = task.status.message
    if task.status.state != TaskState.TASK_STATE_COMPLETED or DIRECT_REPLY not in said.metadata:
        return None
    reply = Message()
    reply.CopyFrom(said)
    reply.ClearField("task_id")
    del reply.metadata[DIRECT_REPLY]
    if not reply.metadata:
        reply.ClearField("metadata")
    return reply
