"""Answers that are a message instead of a task. Internally, such an answer is stored as the status message of a task.

This module is separate from `sdk_executor`, so that agents without a third-party executor do not import the modules of
the SDK's executors.
"""

from typing import Final

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_a2a.extensions import DIRECT_REPLY

HELD: Final = Task()
"""A placeholder for the first event of a stream, while the kind of the answer is unknown. It is never sent."""


def is_held(event: object) -> bool:
    return isinstance(event, Task) and not event.id


def direct_reply(task: Task) -> Message | None:
    """Return the message that is the executor's answer; None if the answer is the task itself."""
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
