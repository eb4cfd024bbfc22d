"""The activity of an agent as its status page reports it, and the time at which a sleeping agent must run again."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_a2a.clock import Clock
from fleetwright_agent.process.retention_schedule import RetainedData, next_deletion
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest
from fleetwright_agent.server.ops.task_activity import TaskActivity

Open = Callable[..., Any]
NOON_NS = 1_795_608_000_000_000_000
"""2026-11-25T12:00:00Z"""
NOON = "2026-11-25T12:00:00Z"
DAY = 86_400
QUIET = {"running": 0, "waiting": 0, "streams": 0, "pushes": 0}


class SetClock:
    """Wall time in nanoseconds, which the test advances."""

    def __init__(self, at_ns: int) -> None:
        self._at_ns = at_ns

    def __call__(self) -> int:
        return self._at_ns

    def advance(self, seconds: int) -> None:
        self._at_ns += seconds * 1_000_000_000


async def activity(door: Any) -> dict[str, Any]:
    async with door.ops() as ops:
        report: dict[str, Any] = (await ops.get("/status")).json()["activity"]
        return report


async def eventually(door: Any, **expected: Any) -> None:
    async with within("the status shows the expected activity"):
        while not expected.items() <= (await activity(door)).items():  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)


async def asks(request: TurnRequest) -> AsyncIterator[Frame]:
    payload = {"tool": "drop", "arguments": {}}
    yield InterruptRequest(InterruptKind.APPROVAL, "May it?", payload, identity="i", tool="drop")


def held_by(gate: asyncio.Event) -> Any:
    async def script(_: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Working. ")
        await gate.wait()
        yield TurnDone("Done.")

    return script


async def test_activity_of_a_fresh_agent_has_only_its_start(open_door: Open) -> None:
    door = await open_door(clock=Clock(now_ns=SetClock(NOON_NS)))
    for _ in range(2):  # Reads of the page, and probes, are no activity.
        assert await activity(door) == {
            "runningTasks": 0,
            "waitingTasks": 0,
            "openStreams": 0,
            "undeliveredPushes": 0,
            "startedAt": NOON,
            "lastTaskActivity": None,
            "lastOwnTaskActivity": None,
            "nextWakeAt": None,
            "scrapedAt": None,
        }
        async with door.ops() as ops:
            await ops.get("/readyz")


async def test_only_a_get_of_the_metrics_is_a_scrape(open_door: Open) -> None:
    now = SetClock(NOON_NS)
    door = await open_door(clock=Clock(now_ns=now))
    now.advance(61)
    async with door.ops() as ops:
        await ops.head("/metrics")
        assert (await activity(door))["scrapedAt"] is None
        await ops.get("/metrics")
    report = await activity(door)
    assert (report["scrapedAt"], report["startedAt"]) == ("2026-11-25T12:01:01Z", NOON)


CALLS = [
    pytest.param("GetTask", True, id="a read"),
    pytest.param("ListTasks", False, id="a list"),
    pytest.param("CancelTask", True, id="a cancellation that is refused"),
    pytest.param("SubscribeToTask", True, id="a subscription that is refused"),
]


@pytest.mark.parametrize(("method", "names_task"), CALLS)
async def test_calls_of_callers_count_as_activity(open_door: Open, method: str, names_task: bool) -> None:
    now = SetClock(NOON_NS)
    door = await open_door(clock=Clock(now_ns=now))
    task = await door.say("hello")
    assert (await activity(door))["lastTaskActivity"] == NOON
    now.advance(30)
    await door.call(method, {"id": task["id"]} if names_task else {})
    assert (await activity(door))["lastTaskActivity"] == "2026-11-25T12:00:30Z"


async def test_activity_counts_running_and_waiting_tasks(open_door: Open) -> None:
    gate = asyncio.Event()
    door = await open_door(held_by(gate))
    first = await door.say("one", now=True, contextId="talk")
    second = await door.say("two", now=True, contextId="talk")
    await door.until(first["id"], "TASK_STATE_WORKING")
    await eventually(door, runningTasks=1, waitingTasks=1)
    gate.set()
    await door.until(second["id"], "TASK_STATE_COMPLETED")
    await eventually(door, runningTasks=0, waitingTasks=0)


@pytest.mark.parametrize("subscribes", [False, True], ids=["the stream of a message", "a subscription"])
async def test_activity_counts_open_streams_and_notes_their_end(open_door: Open, subscribes: bool) -> None:
    now, gate = SetClock(NOON_NS), asyncio.Event()
    door = await open_door(held_by(gate), clock=Clock(now_ns=now))
    method, params = "SendStreamingMessage", {"message": _message("one")}
    if subscribes:
        task = await door.say("one", now=True)
        method, params = "SubscribeToTask", {"id": task["id"]}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with door.http() as http:
        async with http.stream("POST", "/a2a", json=body) as stream:
            await anext(stream.aiter_lines())
            await eventually(door, openStreams=1)
            now.advance(60)
        await eventually(door, openStreams=0, lastTaskActivity="2026-11-25T12:01:00Z")
    gate.set()


async def test_next_wake_is_the_expiry_of_an_approval(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"expirySeconds": 600}))
    door = await open_door(asks, clock=Clock(now_ns=SetClock(NOON_NS)))
    task = await door.say("go")
    assert task["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await activity(door))["nextWakeAt"] == "2026-11-25T12:10:00Z"
    await door.app.drain()
    await door.app.aclose()
    again = await open_door(asks, clock=Clock(now_ns=SetClock(NOON_NS)))
    await eventually(again, nextWakeAt="2026-11-25T12:10:00Z", lastTaskActivity=None)


async def test_next_wake_is_a_day_after_the_shortest_retention(open_door: Open, mounted: Any, documents: Any) -> None:
    mounted.write(mounted.layout.config_file, documents(taskRetentionSeconds=6 * DAY))
    door = await open_door(clock=Clock(now_ns=SetClock(NOON_NS)))
    await door.say("hello")
    await eventually(door, nextWakeAt="2026-12-02T12:00:00Z")


ROUNDINGS = [
    pytest.param(NOON_NS, NOON, NOON, id="a whole second"),
    pytest.param(NOON_NS + 1, "2026-11-25T12:00:01Z", NOON, id="a little later"),
]


@pytest.mark.parametrize(("at_ns", "active", "scraped"), ROUNDINGS)
def test_report_never_shows_a_scrape_as_later_than_it_was(at_ns: int, active: str, scraped: str) -> None:
    times = TaskActivity(Clock(now_ns=lambda: at_ns))
    times.note()
    times.note_scrape()
    report = times.report(**QUIET, wakes_ns=(None, at_ns))
    assert (report["lastTaskActivity"], report["nextWakeAt"], report["scrapedAt"]) == (active, active, scraped)


async def test_tasks_of_the_agent_itself_are_no_activity_of_callers(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    gate = asyncio.Event()
    mounted.write(mounted.layout.config_file, documents(initialPrompt="Begin."))
    door = await open_door(held_by(gate), clock=Clock(now_ns=SetClock(NOON_NS)))
    await eventually(door, runningTasks=1)
    gate.set()
    await eventually(door, runningTasks=0, lastTaskActivity=None, lastOwnTaskActivity=NOON)


def test_retention_counts_tasks_of_every_owner() -> None:
    times = TaskActivity(Clock(now_ns=lambda: NOON_NS))
    assert times.latest_ns is None
    times.own_task_ns = 5
    assert times.latest_ns == 5
    times.note()
    assert times.latest_ns == NOON_NS


def test_report_keeps_the_first_time_of_readiness() -> None:
    now = SetClock(NOON_NS)
    times = TaskActivity(Clock(now_ns=now))
    assert times.report(**QUIET, wakes_ns=())["startedAt"] is None
    times.note_ready()
    now.advance(5)
    times.note_ready()
    assert times.report(**QUIET, wakes_ns=())["startedAt"] == NOON


DELETIONS = [
    pytest.param([(None, 8 * DAY)], None, None, id="no data"),
    pytest.param([(100.0, 8 * DAY)], None, 100 + 9 * DAY, id="the end of its retention and a day"),
    pytest.param([(100.0, 400.0)], None, 600.0, id="a quarter of a short retention"),
    pytest.param([(100.0, 8 * DAY), (50.0, 9 * DAY)], None, 100 + 9 * DAY, id="the earliest of two kinds"),
    pytest.param([(None, 8 * DAY)], 999.0, None, id="nothing was active since the read"),
    pytest.param([(None, 8 * DAY)], 1000.0, 1000 + 9 * DAY, id="data may have been added since the read"),
    pytest.param([(100.0, 9 * DAY), (None, 4 * DAY)], 2000.0, 1000 + 5 * DAY, id="added data has a shorter retention"),
]


@pytest.mark.parametrize(("kinds", "last_active", "due"), DELETIONS)
def test_next_deletion(kinds: list[tuple[float | None, float]], last_active: float | None, due: float | None) -> None:
    retained = [RetainedData(*each) for each in kinds]
    assert next_deletion(retained, read_at=1000.0, last_active=last_active) == due


def _message(text: str) -> dict[str, Any]:
    return {"messageId": text, "role": "ROLE_USER", "parts": [{"text": text}]}
