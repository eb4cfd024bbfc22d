"""An answer that was given as a message and not as a task: how its task carries it, and how it is told.

Apart from `foreign`, so that an agent without foreign code does not import what executors of the SDK need.
"""

from typing import Final

from a2a.types.a2a_pb2 import Message, Task, TaskState

from fleetwright_agent.protocol.extensions import DIRECT_REPLY

HELD: Final = Task()
"""First in a stream that has begun, and tells nothing until it is known whether the answer is a message."""


def is_held(event: object) -> bool:
    return isinstance(event, Task) and not event.id


def direct_reply(task: Task) -> Message | None:
    """The message that an executor gave for an answer, as it gave it; nothing where it worked on a task."""
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
