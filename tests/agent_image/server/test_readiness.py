"""The time for which interrupted tasks delay `/readyz` after a restart, in virtual time."""

import asyncio
from collections.abc import Sequence
from typing import Any

import httpx
import pytest
from a2a.types.a2a_pb2 import Message, Role, Task, TaskState, TaskStatus
from tests.support.virtual_time import run
from tests.support.waiting import await_until

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import Event, status_event
from fleetwright_agent.app import create_app
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import Claim

ALWAYS = float("inf")


class Deciding:
    """An executor whose recovered tasks take some seconds until it is decided that they resume."""

    recovers = True

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def begin(self, job: TaskJob, emit: Emit) -> "_Work":
        raise AssertionError("no message arrives")

    def recover(self, job: TaskJob, emit: Emit) -> "_Work":
        job.pulse.decided.clear()
        return _Work(job, self._seconds[job.task_id])


class _Work:
    """Work that is decided on after some seconds, and then runs on."""

    def __init__(self, job: TaskJob, seconds: float) -> None:
        self._job = job
        self._seconds = seconds

    async def run(self) -> Sequence[Event]:
        if self._seconds != ALWAYS:
            await asyncio.sleep(self._seconds)
            self._job.pulse.decided.set()
        await asyncio.Event().wait()
        return ()

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return (status_event(self._job.task_id, self._job.context_id, outcome.state, at_ns=1),)


async def _measure_time_until_ready(mounted: Any, seconds: dict[str, tuple[str, float]]) -> float:
    """Return the virtual time after which `/readyz` answers 200.

    Args: `seconds` maps each interrupted task to its conversation and to the time until the task is decided on.
    """
    loop, log = asyncio.get_running_loop(), MemoryTaskLog()
    for name, (context, _) in seconds.items():
        task = Task(id=name, context_id=context, status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
        task.history.append(Message(message_id=name, role=Role.ROLE_USER))
        await log.accept(Claim("client:default", name, b""), task, at_ns=1)
    app = create_app(
        mounted.config(),
        layout=mounted.layout,
        executor=Deciding({name: each for name, (_, each) in seconds.items()}),
        log=log,
        storage=memory_storage(),
        clock=Clock(monotonic=loop.time),
    )
    await app.start()
    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app.ops), base_url="http://agent") as http:

            async def is_ready() -> bool:
                return (await http.get("/readyz", timeout=None)).status_code == 200

            await await_until(is_ready, "/readyz answers 200")
        return loop.time()
    finally:
        await app.drain()
        await app.aclose()


@pytest.mark.parametrize(
    ("tasks", "wanted"),
    [
        pytest.param({"a": ("c", 5)}, 5, id="a task that resumes after 5 s"),
        pytest.param({"a": ("c", 5), "b": ("d", 12)}, 12, id="the slower of two conversations"),
        pytest.param({"a": ("c", ALWAYS)}, 30, id="a task that is never decided on: 30 s at most"),
        pytest.param({"a": ("c", 5), "b": ("c", ALWAYS)}, 5, id="only the first task of a conversation"),
    ],
)
def test_readiness_waits_30_s_for_the_first_tasks(
    mounted: Any, tasks: dict[str, tuple[str, float]], wanted: float
) -> None:
    assert run(_measure_time_until_ready(mounted, tasks)) == pytest.approx(wanted, abs=1)
