"""Registrations and notifications for the tests of the push store."""

from typing import Any

from a2a.types.a2a_pb2 import Task, TaskState, TaskStatus

from fleetwright_a2a.task_events import status_event
from fleetwright_agent.storage.tasks.push_store import Notification, Registration
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    EventRecord,
    Ownership,
)
from fleetwright_agent.storage.tasks.task_log import TaskLog

COMPLETED, WAITING = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_INPUT_REQUIRED


SECOND = 1_000_000_000


def hook(name: str = "a", host: str = "h:443") -> Registration:
    return Registration(name, f"https://{host}/{name}", host, "1.0", b"sealed")


async def begun(log: TaskLog, name: str) -> Ownership:
    task = Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    answer = await log.accept(Claim("me", f"m-{name}", b"1"), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    return answer.ownership


async def rest(
    log: TaskLog, run: Ownership, name: str, state: TaskState = COMPLETED, *, seq: int = 2, at_ns: int = 9
) -> None:
    final = Task(id=name, context_id="c", status=TaskStatus(state=state))
    await log.rest(run, (EventRecord(seq, at_ns, status_event(name, "c", state, at_ns=at_ns)),), final)


async def due(log: TaskLog, now_ns: int = 100, **limits: Any) -> list[Notification]:
    wanted: dict[str, Any] = {"but": (), "hosts_but": (), "owners_but": (), "most": 10, **limits}
    return list(await log.pushes.due(now_ns, **wanted))
