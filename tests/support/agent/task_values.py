"""Tasks and claims for the tests of the task log."""

from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus

from fleetwright_a2a.task_events import Event, status_event
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    EventRecord,
    Ownership,
)
from fleetwright_agent.storage.tasks.task_log import TaskLog

COMPLETED = TaskState.TASK_STATE_COMPLETED


WAITING = TaskState.TASK_STATE_INPUT_REQUIRED


def new(name: str) -> Task:
    return Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))


def claim(name: str, *, owner: str = "me", content: bytes = b"1") -> Claim:
    return Claim(owner=owner, message_id=f"m-{name}", digest=content)


def piece(text: str) -> TaskArtifactUpdateEvent:
    return TaskArtifactUpdateEvent(append=True, artifact=Artifact(artifact_id="a", parts=[Part(text=text)]))


def ended(name: str, state: TaskState = COMPLETED, *, at_ns: int = 9) -> Event:
    return status_event(name, "c", state, at_ns=at_ns)


async def accepted(log: TaskLog, name: str, *, at_ns: int = 1, owner: str = "me") -> Ownership:
    answer = await log.accept(claim(name, owner=owner), new(name), at_ns=at_ns)
    assert isinstance(answer, AcceptedClaim)
    return answer.ownership


async def finished(
    log: TaskLog, name: str, state: TaskState = COMPLETED, *, at_ns: int = 9, expires_ns: int | None = None
) -> Ownership:
    run = await accepted(log, name)
    final = new(name)
    final.status.state = state
    await log.rest(run, (EventRecord(2, at_ns, ended(name, state)),), final, expires_ns=expires_ns)
    return run
