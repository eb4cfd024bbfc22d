"""The task and the job that a new message becomes."""

from dataclasses import dataclass
from uuid import uuid4

from a2a.types.a2a_pb2 import Message, SendMessageRequest, Task, TaskState, TaskStatus
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.authentication import Delegation
from fleetwright_a2a.extensions import CALLERS, CHOSEN_ID
from fleetwright_agent.protocol.interrupts import TaskInterrupt
from fleetwright_agent.server.executors.port import TaskJob
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.messages import addressed


@dataclass(frozen=True, slots=True)
class Origin:
    """The origin of a message besides the caller: the delegation, the chain of agents, and the active extensions."""

    delegation: Delegation | None
    chain: tuple[str, ...]
    activated: frozenset[str]
    """Extensions that stay active for the task, even after a restart."""
    dedup_key: str | None = None
    """A name under which at most one task is ever accepted."""


def job_of(
    live: ActiveTask, message: Message, pause: TaskInterrupt | None = None, former: Task | None = None
) -> TaskJob:
    """Return the job of an accepted message. Args: `former` is the task as it was before an answer."""
    return TaskJob(
        owner=live.owner,
        task_id=live.task_id,
        context_id=live.context_id,
        message=message,
        metadata=MessageToDict(message.metadata),
        former=former,
        pause=pause,
    )


def new_task(request: SendMessageRequest, origin: Origin, *, at_ns: int) -> Task:
    """Return the task that a message begins. A delegation contains the id of the task for which it was issued."""
    chosen = request.message.task_id
    task = Task(
        id=chosen or (origin.delegation.task_id if origin.delegation else str(uuid4())),
        context_id=request.message.context_id or f"a2a-{uuid4()}",
        status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
    )
    task.status.timestamp.FromNanoseconds(at_ns)
    task.history.append(addressed(request, task, activated=origin.activated))
    if len(origin.chain) > 1:  # The owner of the task names a single agent.
        task.history[0].metadata.update({CALLERS: list(origin.chain)})
    if chosen:
        task.metadata[CHOSEN_ID] = True
    return task
