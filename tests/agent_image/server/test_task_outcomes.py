"""The outcomes of the last tasks on the status page: counts and costs by skill, bounds, and restarts."""

from collections.abc import AsyncIterator, Callable
from decimal import Decimal
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Message, Task, TaskState, TaskStatus

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extension_codec import attach
from fleetwright_a2a.extensions import COST
from fleetwright_agent.protocol.frames import (
    Frame,
    InterruptKind,
    InterruptRequest,
    Purpose,
    TurnDone,
    TurnRequest,
    Usage,
)
from fleetwright_agent.server.ops.task_outcomes import TASKS_PER_SKILL, TaskOutcomes, cost_of
from fleetwright_agent.storage.errors import MemoryUnusable
from fleetwright_agent.storage.memory.storage import memory_storage

Open = Callable[..., Any]


async def script(request: TurnRequest) -> AsyncIterator[Frame]:
    """Succeed with the cost that the message names, fail, or ask."""
    if request.text == "ask" and request.reply is None:
        payload = {"tool": "drop", "arguments": {}}
        yield InterruptRequest(InterruptKind.APPROVAL, "May it?", payload, identity="i", tool="drop")
        return
    if request.text == "fail":
        raise RuntimeError("the model is broken")
    yield Usage("m", 10, 2, 0, 0, Decimal(request.text) if request.text != "free" else None, Purpose.ANSWER)
    yield TurnDone("Done.")


async def outcomes(door: Any) -> list[dict[str, Any]]:
    async with door.ops() as ops:
        found: list[dict[str, Any]] = (await ops.get("/status")).json()["outcomes"]
        return found


def hinted(skill: str) -> dict[str, Any]:
    return {"metadata": {"skillHint": skill}}


async def test_outcomes_are_counted_by_the_skills_of_the_card(open_door: Open) -> None:
    door = await open_door(script)
    assert await outcomes(door) == []
    await door.say("0.25")
    await door.say("fail")
    await door.say("0.5", **hinted("chat"))
    await door.say("0.5", **hinted("unknown"))
    assert await outcomes(door) == [
        {"tasks": 3, "succeeded": 2, "costUsd": "0.750000"},
        {"skill": "chat", "tasks": 1, "succeeded": 1, "costUsd": "0.500000"},
    ]


async def test_tasks_without_a_price_add_no_cost(open_door: Open) -> None:
    door = await open_door(script)
    await door.say("free")
    assert await outcomes(door) == [{"tasks": 1, "succeeded": 1}]
    await door.say("0.25")
    assert await outcomes(door) == [{"tasks": 2, "succeeded": 2, "costUsd": "0.250000"}]


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        pytest.param("0.25", Decimal("0.25"), id="a text"),
        pytest.param(0.25, Decimal("0.25"), id="a number"),
        *(pytest.param(value, None, id=repr(value)) for value in ("n/a", "Infinity", "NaN", 1e300, -1, [], None)),
    ],
)
def test_cost_of_a_task_is_a_finite_amount(value: Any, wanted: Decimal | None) -> None:
    task = Task(status=TaskStatus(message=Message(message_id="m")))
    attach(task.status.message, COST, {"costUsd": value, "modelCalls": 1})
    assert cost_of(task) == wanted


async def test_cancelled_and_waiting_tasks_do_not_count(open_door: Open) -> None:
    door = await open_door(script)
    task = await door.say("ask")
    assert await outcomes(door) == []
    await door.call("CancelTask", {"id": task["id"]})
    assert await outcomes(door) == []


async def test_only_the_last_tasks_count(open_door: Open) -> None:
    door = await open_door(script)
    await door.say("fail")
    for _ in range(TASKS_PER_SKILL):
        await door.say("0.01")
    assert await outcomes(door) == [{"tasks": TASKS_PER_SKILL, "succeeded": TASKS_PER_SKILL, "costUsd": "2.000000"}]


class ClosedStore:
    """A store whose file is closed."""

    async def task_outcomes(self) -> None:
        raise MemoryUnusable("closed")

    def put_task_outcomes(self, body: Any) -> None:
        raise MemoryUnusable("closed")


class EndedTask:
    busy = False
    state = TaskState.TASK_STATE_COMPLETED
    task = Task()


async def test_failing_store_only_leaves_a_log_line(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = TaskOutcomes(ClosedStore(), Clock(), skills=frozenset)
    await outcomes.load()
    outcomes.on_event(EndedTask())
    outcomes.store()
    assert outcomes.report == [{"tasks": 1, "succeeded": 1, "costUsd": "0.000000"}]
    assert [record.getMessage() for record in caplog.records] == [
        "the outcomes of earlier tasks cannot be read: closed",
        "the outcomes of tasks cannot be stored: closed",
    ]


@pytest.mark.parametrize("restarts", [1, 2])
async def test_outcomes_survive_restarts(open_door: Open, restarts: int) -> None:
    storage = memory_storage()
    for _ in range(restarts):
        door = await open_door(script, storage=storage)
        await door.say("0.25")
        await door.app.drain()
        await door.app.aclose()
    door = await open_door(script, storage=storage)
    assert await outcomes(door) == [{"tasks": restarts, "succeeded": restarts, "costUsd": f"{restarts * 0.25:.6f}"}]
