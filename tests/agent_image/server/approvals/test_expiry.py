"""Expiry of approvals: the agent denies the call exactly once, and continues the task."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import await_until, within

from fleetwright_a2a.clock import Clock
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnRequest
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey

Open = Callable[..., Any]
ANSWER = "https://fleetwright.dev/a2a/answer/v1"
INPUT_REQUIRED, COMPLETED, FAILED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED", "TASK_STATE_FAILED"
SECOND = 1_000_000_000
NOON_NS = 1_795_608_000 * SECOND
DENIAL = {"approved": False, "expired": True, "reason": "The approval was not given in time."}


class SetClock:
    def __init__(self) -> None:
        self.now_ns = NOON_NS

    def __call__(self) -> int:
        return self.now_ns


@pytest.fixture
def time() -> SetClock:
    return SetClock()


@pytest.fixture
def open_expiring(open_door: Open, mounted: Any, documents: Any, time: SetClock) -> Open:
    """Return a function that starts an agent whose approvals expire after a minute."""

    async def start(turn: Any, **more: Any) -> Any:
        mounted.write(mounted.layout.config_file, documents(approvals={"expirySeconds": 60}))
        return await open_door(turn, clock=Clock(now_ns=time), **{"retry_seconds": 0.02, **more})

    return start


async def test_expiry_denies_and_the_task_continues(
    open_expiring: Open, operator_of: Any, asking: Any, time: SetClock
) -> None:
    door = await open_expiring(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    time.now_ns += 61 * SECOND
    done = await door.until(task["id"], COMPLETED)
    assert [request.reply and request.reply.value for request in door.turn.requests] == [None, DENIAL]
    (stamp,) = (each["metadata"][ANSWER] for each in done["history"] if ANSWER in each.get("metadata", {}))
    message = next(each for each in done["history"] if ANSWER in each.get("metadata", {}))
    assert stamp == {
        "ask": approval["ask"],
        "by": "expiry",
        "at": "2026-11-25T12:01:01+00:00",
        "messageId": message["messageId"],
        "tool": "house__charge_card",
        "decision": "declined",
        "reason": "The approval was not given in time.",
    }
    assert await operator.open() == []
    for decision in ("Approved", "Denied"):
        late = await operator.decide(approval, decision)
        assert (late.status_code, late.json()) == (404, {"outcome": "notFound"})
    refused = await door.call("SendMessage", {"message": {
        "messageId": "late", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"],
    }})  # fmt: skip
    assert refused["error"]["code"] == -32004


async def test_late_answer_of_the_caller_is_refused(open_expiring: Open, asking: Any, time: SetClock) -> None:
    door = await open_expiring(asking, retry_seconds=3600)
    task = await door.say("charge")
    time.now_ns += 61 * SECOND
    refused = await door.call("SendMessage", {"message": {
        "messageId": "late", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"],
    }})  # fmt: skip
    assert "deadline of this question has passed" in refused["error"]["message"]
    assert len(door.turn.requests) == 1


async def test_only_the_server_may_claim_an_expiry(open_expiring: Open, asking: Any) -> None:
    door = await open_expiring(asking)
    task = await door.say("charge")
    await door.call("SendMessage", {"message": {
        "messageId": "claim", "role": "ROLE_USER", "parts": [{"data": DENIAL}], "taskId": task["id"],
    }})  # fmt: skip
    assert door.turn.requests[-1].reply.value == {key: value for key, value in DENIAL.items() if key != "expired"}


async def test_expired_approval_is_denied_once_across_a_restart(
    open_expiring: Open, asking: Any, time: SetClock
) -> None:
    log = MemoryTaskLog()
    first = await open_expiring(asking, log=log)
    task = await first.say("charge")
    time.now_ns += 61 * SECOND
    assert (await first.until(task["id"], "TASK_STATE_COMPLETED"))["id"] == task["id"]
    second = await open_expiring(asking, log=log)
    time.now_ns += 61 * SECOND
    await asyncio.sleep(0.1)  # The next process looks for expired approvals every 20 ms.
    assert await _answers(log, task) == 1
    assert len(first.turn.requests) + len(second.turn.requests) == 2


async def _answers(log: MemoryTaskLog, task: dict[str, Any]) -> int:
    stored = await log.find("client:default", task["id"])
    assert stored is not None
    return sum(ANSWER in each.metadata.fields for each in stored.task.history)


async def test_expiry_waits_until_the_agent_is_ready(
    open_expiring: Open, mounted: Any, asking: Any, time: SetClock
) -> None:
    door = await open_expiring(asking)
    task = await door.say("charge")
    accepted = mounted.layout.callers_file.read_text()
    mounted.layout.callers_file.write_text("{")
    async with within("the agent is not ready"), door.ops() as ops:
        while (await ops.get("/readyz")).status_code == 200:  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)
    time.now_ns += 61 * SECOND
    await asyncio.sleep(0.2)
    assert len(door.turn.requests) == 1
    mounted.layout.callers_file.write_text(accepted)
    await door.until(task["id"], COMPLETED)
    assert len(door.turn.requests) == 2


class PausedLog(MemoryTaskLog):
    """Delays the acceptance of denials until the test continues it."""

    def __init__(self) -> None:
        super().__init__()
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def resume(self, *args: Any, **more: Any) -> Any:
        self.reached.set()
        await self.go.wait()
        return await super().resume(*args, **more)


async def test_drain_waits_for_the_run_of_a_denial(open_expiring: Open, asking: Any, time: SetClock) -> None:
    """The drain begins while the first of two approvals is being denied. The second one waits for the next process."""
    log = PausedLog()
    door = await open_expiring(asking, log=log)
    tasks = [await door.say("charge") for _ in range(2)]
    time.now_ns += 61 * SECOND
    async with within("the expiry reaches the log"):
        await log.reached.wait()
    drain = asyncio.create_task(door.app.drain())
    await asyncio.wait({drain}, timeout=0.1)
    assert not drain.done()
    log.go.set()
    await drain
    begun = len(door.turn.requests)
    stored = [await log.find("client:default", task["id"]) for task in tasks]
    assert sorted(each.task.status.state for each in stored if each) == [3, 6]  # completed, input required
    assert not any(each.busy for each in stored if each)
    await asyncio.sleep(0.1)
    assert len(door.turn.requests) == begun == 3


def asks_again_as(identity: str) -> Callable[[TurnRequest], AsyncIterator[Frame]]:
    """Return a turn that asks again after each denial."""
    numbers = itertools.count()

    async def turn(request: TurnRequest) -> AsyncIterator[Frame]:
        payload = {"kind": "approval", "title": "Charge?", "detail": "", "project": "team/echo"}
        ask = identity.format(next(numbers))
        yield InterruptRequest(InterruptKind.APPROVAL, "Charge?", payload, ask, "charge", {})

    return turn


@pytest.mark.parametrize(
    "identity", [pytest.param("ask-{}", id="another question"), pytest.param("ask", id="a question with the same id")]
)
async def test_second_expiry_ends_the_task(open_expiring: Open, time: SetClock, identity: str) -> None:
    """The questions that peers asked during the task are closed then."""
    storage = memory_storage()
    door = await open_expiring(asks_again_as(identity), storage=storage)
    task = await door.say("charge")
    place = QuestionKey("client:default", task["contextId"], "team/cook")
    await storage.questions.put(OpenQuestion(place, "theirs", task["id"]))
    for turns in (1, 2):
        await await_until(lambda least=turns: len(door.turn.requests) >= least, f"turn {turns} begins")
        await door.until(task["id"], INPUT_REQUIRED)
        assert door.turn.released == []
        time.now_ns += 61 * SECOND
    ended = await door.until(task["id"], FAILED)
    message = ended["status"]["message"]
    assert message["metadata"]["reason"] == "approval_expired"
    assert "the second approval of this task that has expired" in message["parts"][0]["text"]
    assert [request.reply and request.reply.value for request in door.turn.requests] == [None, DENIAL]
    await await_until(lambda: door.turn.released, "the task is released")
    assert door.turn.released == [task["id"]]


async def test_expiry_counts_no_answer_of_a_person(open_expiring: Open, asking: Any, time: SetClock) -> None:
    """A person has declined the first question. The second question is the first one that expires."""
    door = await open_expiring(asks_again_as("ask"))
    task = await door.say("charge")
    await door.say("no", taskId=task["id"])
    time.now_ns += 61 * SECOND
    await await_until(lambda: len(door.turn.requests) >= 3, "the third turn begins")
    assert door.turn.requests[-1].reply.value == DENIAL


async def fills_the_task(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text("a" * 5_000_000)
    payload = {"kind": "approval", "title": "Charge?", "detail": "", "project": "team/echo"}
    yield InterruptRequest(InterruptKind.APPROVAL, "q" * 5_000_000, payload, f"ask-{request.task_id}", "charge", {})


async def test_full_task_fails_when_its_approval_expires(open_expiring: Open, time: SetClock) -> None:
    door = await open_expiring(fills_the_task)
    task = await door.say("m" * 500_000)
    assert task["status"]["state"] == INPUT_REQUIRED
    time.now_ns += 61 * SECOND
    ended = await door.until(task["id"], FAILED)
    assert ended["status"]["message"]["metadata"]["reason"] == "approval_expired"
    assert len(door.turn.requests) == 1
