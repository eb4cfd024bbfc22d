"""Unreadable tasks in the task log: the task ends, its caller gets the reason, and no other caller is affected."""

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from tests.support.machine import ceiling
from tests.support.waiting import await_until, within

from fleetwright_agent.server.executors.port import Emit, TaskJob, TaskWork
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.tasks import push_statements as push
from fleetwright_agent.storage.sqlite.tasks import unreadable as damaged
from fleetwright_agent.storage.sqlite.tasks.file import TASKS
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog

Open = Callable[..., Any]
DAMAGES = [
    pytest.param("snapshot = x'ff01'", id="its bytes are no task"),
    pytest.param("snapshot = x''", id="nothing is left of it"),
    pytest.param("snapshot = (SELECT snapshot FROM tasks ORDER BY n DESC LIMIT 1)", id="it is another task"),
]


class Asks(AgentExecutor):
    """An executor that completes for the text `finished`, and asks a question for any other text."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await task.start_work()
        await (task.complete() if context.get_user_input() == "finished" else task.requires_input())

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """No resources to release."""


def damage(mounted: Any, task: dict[str, Any], change: str) -> None:
    with closing(sqlite3.connect(mounted.layout.memory / "tasks.db", timeout=ceiling())) as connection:
        assert connection.execute(f"UPDATE tasks SET {change} WHERE id = ?", (task["id"],)).rowcount == 1
        connection.commit()


async def metric(door: Any, name: str) -> float:
    async with door.ops() as ops:
        lines = (await ops.get("/metrics")).text.splitlines()
    return next(float(line.split()[-1]) for line in lines if line.startswith(f"fleetwright_{name} "))


async def set_aside(door: Any) -> int | None:
    """Return the number of tasks that the status page reports as set aside."""
    async with door.ops() as ops:
        number: int | None = (await ops.get("/status")).json().get("damagedTasks")
    return number


def evidence(mounted: Any) -> list[tuple[str, str, str, bytes]]:
    with closing(sqlite3.connect(mounted.layout.memory / "tasks.db", timeout=ceiling())) as connection:
        return connection.execute("SELECT owner, task, kind, payload FROM damaged ORDER BY n, seq").fetchall()


def lost(task: dict[str, Any]) -> bool:
    status = task["status"]
    return status["state"] == "TASK_STATE_FAILED" and status["message"]["metadata"]["reason"] == "unreadable"


async def serves(door: Any) -> None:
    async with door.ops() as ops:
        assert (await ops.get("/readyz")).status_code == 200
    assert (await door.say("finished"))["status"]["state"] == "TASK_STATE_COMPLETED"


@pytest.mark.parametrize("first", ["GetTask", "ListTasks", "SendMessage", "CancelTask"])
@pytest.mark.parametrize("change", DAMAGES)
async def test_unreadable_waiting_task_has_failed_for_any_operation(
    open_door: Open, mounted: Any, change: str, first: str
) -> None:
    door = await open_door(executor=Asks())
    task, other = await door.say("wait"), await door.say("finished")
    damage(mounted, task, change)
    message = {"messageId": "m", "taskId": task["id"], "role": "ROLE_USER", "parts": [{"text": "finished"}]}
    params = {"ListTasks": {}, "SendMessage": {"message": message}}
    answer = await door.call(first, params.get(first, {"id": task["id"]}))
    codes = {"SendMessage": -32004, "CancelTask": -32002}
    assert answer.get("error", {}).get("code") == codes.get(first)
    assert lost(await door.get(task["id"]))
    listed = (await door.call("ListTasks", {"status": "TASK_STATE_FAILED"}))["result"]["tasks"]
    assert [each["id"] for each in listed] == [task["id"]]
    assert await door.get(other["id"]) == other
    assert await metric(door, "tasks_lost_total") == 1
    await serves(door)


async def test_unreadable_ended_task_stays_lost_after_a_restart(open_door: Open, mounted: Any) -> None:
    door = await open_door(executor=Asks())
    task = await door.say("finished")
    damage(mounted, task, "snapshot = x'ff01'")
    told = await door.get(task["id"])
    assert lost(told)
    await door.app.aclose()
    again = await open_door(executor=Asks())
    assert await again.get(task["id"]) == told
    assert await metric(again, "tasks_lost_total") == 1, "the next process counts the task no second time"
    assert await set_aside(again) == 1


async def test_unreadable_expired_approval_ends_at_the_next_sweep(open_door: Open, mounted: Any) -> None:
    door = await open_door(executor=Asks(), retry_seconds=0.02)
    task = await door.say("wait")
    damage(mounted, task, "snapshot = x'ff01', expires_ns = 1")
    async with within("the lost task is counted"):
        while await metric(door, "tasks_lost_total") == 0:  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    assert (await metric(door, "tasks_lost_total"), await metric(door, "upkeep_failures_total")) == (1, 0)
    assert lost(await door.get(task["id"]))
    await serves(door)


async def test_unreadable_running_task_does_not_block_the_start(open_door: Open, mounted: Any) -> None:
    first = await open_door(executor=Asks())
    task = await first.say("finished")
    await first.app.aclose()
    damage(mounted, task, "snapshot = x'ff01', busy = 1")
    door = await open_door(executor=Asks())
    ended = await door.get(task["id"])
    assert ended["status"]["state"] == "TASK_STATE_FAILED"
    assert ended["status"]["message"]["metadata"]["reason"] == "restart"
    assert await metric(door, "tasks_lost_total") == 1
    assert evidence(mounted) == [("client:default", task["id"], "snapshot", b"\xff\x01")]
    await serves(door)


@pytest.mark.parametrize("look", ["GetTask", "ListTasks"])
async def test_unreadable_task_is_kept_aside_once_and_reported(open_door: Open, mounted: Any, look: str) -> None:
    door = await open_door(executor=Asks())
    task = await door.say("wait")
    assert await set_aside(door) is None
    damage(mounted, task, "snapshot = x'ff01'")
    for _ in range(2):
        await door.call(look, {"id": task["id"]} if look == "GetTask" else {})
        assert lost(await door.get(task["id"]))
    assert evidence(mounted) == [("client:default", task["id"], "snapshot", b"\xff\x01")]
    assert await set_aside(door) == 1


class Fragile:
    """An executor that raises when it resumes interrupted tasks."""

    recovers = True

    def begin(self, job: TaskJob, emit: Emit) -> TaskWork:
        raise NotImplementedError

    def recover(self, job: TaskJob, emit: Emit) -> TaskWork | None:
        raise RuntimeError("unexpected error")


async def test_failing_recovery_of_a_task_does_not_block_the_start(open_door: Open, mounted: Any) -> None:
    first = await open_door(executor=Asks())
    task = await first.say("finished")
    await first.app.aclose()
    damage(mounted, task, "busy = 1")
    door = await open_door(executor=Fragile())
    ended = await door.get(task["id"])
    assert ended["status"]["message"]["metadata"]["reason"] == "restart"
    async with door.ops() as ops:
        assert (await ops.get("/readyz")).status_code == 200


async def test_task_with_unreadable_events_is_lost(tmp_path: Path) -> None:
    path = tmp_path / "tasks.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(f"{TASKS} {push.SCHEMA} PRAGMA user_version = 2;")
        connection.execute("INSERT INTO tasks VALUES (1, 'me', 't', 'c', 1, 2, 1, 1, 1, x'0a0174')")
        connection.execute("INSERT INTO tasks VALUES (2, 'me', 'u', 'c', 1, 6, 0, 1, 1, x'ff')")
        connection.execute("INSERT INTO events VALUES (1, 2, 'status', 1, x'ff01')")
        connection.commit()
    heard: list[str] = []
    log = SqliteTaskLog(path, lost=lambda: heard.append("lost"))
    await log.open()  # A task that the upgrade cannot read does not stop the upgrade either.
    stored = [await log.find("me", name) for name in "tu"]
    assert [(each.lost, each.seq, each.busy) for each in stored if each] == [(True, 2, True), (True, 1, False)]
    assert heard == ["lost", "lost"]
    assert log.damaged == 2
    with closing(sqlite3.connect(path)) as connection:
        kept = connection.execute("SELECT task, kind, payload FROM damaged ORDER BY n, seq").fetchall()
    assert kept == [("t", "snapshot", b"\n\x01t"), ("t", "status", b"\xff\x01"), ("u", "snapshot", b"\xff")]
    await log.aclose()


def test_damaged_rows_are_limited_by_size_and_age() -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(f"{TASKS} {damaged.SCHEMA}")
        for n in range(1, 6):
            values = (n, f"t{n}", n, bytes(100))
            connection.execute("INSERT INTO tasks VALUES (?, 'me', ?, 'c', 1, 6, 0, ?, 1, ?)", values)
            kept = damaged.keep(connection, n, updated_ns=n, found_ns=n, most=300)
        assert kept == 3
        names = "SELECT task FROM damaged ORDER BY n"
        assert [name for (name,) in connection.execute(names)] == ["t3", "t4", "t5"]
        assert damaged.forget(connection, now_ns=damaged.KEPT_NS + 5) == 1
        assert damaged.keep(connection, 1, updated_ns=7, found_ns=9) == 1, "the task has changed"


class Breaks(MemoryTaskLog):
    """A log that raises an unexpected error, until the test repairs it."""

    broken = True
    successes = 0

    async def expired(self, now_ns: int) -> Any:
        if self.broken:
            raise RuntimeError("unexpected error")
        self.successes += 1
        return await super().expired(now_ns)


async def test_maintenance_continues_after_an_unexpected_error(
    open_door: Open,
) -> None:
    log = Breaks()
    door = await open_door(executor=Asks(), log=log, retry_seconds=0.02)
    async with within("three rounds of maintenance fail"):
        while await metric(door, "upkeep_failures_total") < 3:  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.02)
    await serves(door)
    log.broken = False
    await await_until(lambda: log.successes, "a round of maintenance succeeds")
    settled = await metric(door, "upkeep_failures_total")
    await await_until(lambda: log.successes >= 4, "three more rounds of maintenance succeed")
    assert await metric(door, "upkeep_failures_total") == settled
