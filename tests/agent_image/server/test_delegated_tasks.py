"""The task to which a delegation is bound: the id of a new task, and the messages that the agent refuses."""

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.agent.gateway_tokens import DELEGATION, KEY, LEAD_FOR_ANNA, build_key_file, sign_delegation

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, TurnDone, TurnRequest
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.tasks.task_log import TaskLog

Open = Callable[..., Any]
OWNER = "user:anna via agent:team/lead"
IN_USE = "Fleetwright-Delegation: another message has begun the task of this delegation"
OTHER = "Fleetwright-Delegation: the delegation was issued for a task other than "


@pytest.fixture(params=["sqlite", "memory"])
def log(request: Any, mounted: Any) -> TaskLog:
    return SqliteTaskLog(mounted.layout.memory / "tasks.db") if request.param == "sqlite" else MemoryTaskLog()


@pytest.fixture
async def door(open_door: Open, mounted: Any, log: TaskLog) -> Any:
    mounted.write(mounted.layout.gateway_file, build_key_file(KEY))
    return await open_door(asks_first, log=log)


async def asks_first(request: TurnRequest) -> AsyncIterator[Frame]:
    """Ask a question if the message says so."""
    if request.text == "ask" and request.reply is None:
        yield InterruptRequest(InterruptKind.QUESTION, "How many?", {"question": "How many?"}, "q", "ask_human", {})
    else:
        yield TurnDone("done")


async def post(door: Any, method: str, params: Any, *, task: str | None = None, version: str = "1.0") -> Any:
    """Send a message, with a delegation for a task. Return the task, or the text of the error."""
    headers = {"Authorization": f"Bearer {KEY.token(LEAD_FOR_ANNA, sub='user:anna')}", "A2A-Version": version}
    if task is not None:
        headers[DELEGATION] = sign_delegation(task=task)
    async with door.http(None) as http:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        found = (await http.post("/a2a", json=call, headers=headers)).json()
    return found["error"]["message"] if "error" in found else found["result"].get("task", found["result"])


async def send(door: Any, message_id: str, *, task: str | None = None, text: str = "x", **named: str) -> Any:
    message = {"messageId": message_id, "role": "ROLE_USER", "parts": [{"text": text}], **named}
    return await post(door, "SendMessage", {"message": message}, task=task)


async def send_v01(door: Any, chosen: str, *, task: str | None = None, text: str = "x") -> Any:
    message = {"role": "user", "parts": [{"type": "text", "text": text}]}
    return await post(door, "tasks/send", {"id": chosen, "message": message}, task=task, version="0.1")


async def test_delegation_begins_one_task(door: Any, log: TaskLog) -> None:
    first = await send(door, "m1", task="t")
    assert (first["id"], door.turn.requests[0].task_id) == ("t", "t")
    assert (await send(door, "m2", task="t")).startswith(IN_USE)
    assert (await send(door, "m2", task="u"))["id"] == "u"
    kept = [await log.delegation(OWNER, task) for task in ("t", "u")]
    assert [each and each.task_id for each in kept] == ["t", "u"]


async def test_repeated_message_returns_its_task(door: Any, log: TaskLog) -> None:
    """The gateway signs a new delegation for each request, so a repeated message has another id."""
    assert (await send(door, "m1", task="t"))["id"] == "t"
    assert [(await send(door, "m1", task=task))["id"] for task in ("t", "u", None)] == ["t"] * 3
    assert len(door.turn.requests) == 1
    assert await log.delegation(OWNER, "u") is None


async def test_message_to_a_task_needs_its_delegation(door: Any, log: TaskLog) -> None:
    assert (await send(door, "m1", task="t", text="ask"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert (await send(door, "m2", task="u", taskId="t")).startswith(OTHER + "message.taskId")
    assert len(door.turn.requests) == 1
    answered = await send(door, "m2", task="t", taskId="t")
    assert (answered["id"], answered["status"]["state"]) == ("t", "TASK_STATE_COMPLETED")


class OutdatedLog(MemoryTaskLog):
    """Finds no task, as if another process had begun each task a moment later."""

    is_outdated = False

    async def find(self, owner: str, task_id: str) -> Any:
        return None if self.is_outdated else await super().find(owner, task_id)


@pytest.mark.parametrize("with_delegation", [False, True])
async def test_task_id_in_use_names_what_the_caller_sent(open_door: Open, mounted: Any, with_delegation: bool) -> None:
    """A caller of A2A 0.1 chooses the id, with and without a delegation."""
    mounted.write(mounted.layout.gateway_file, build_key_file(KEY))
    log, task = OutdatedLog(), "mine" if with_delegation else None
    assert (await send_v01(await open_door(log=log), "mine", task=task))["id"] == "mine"
    door, log.is_outdated = await open_door(log=log), True
    expected = IN_USE if with_delegation else "id: another message has begun a task with this id"
    assert (await send_v01(door, "mine", task=task, text="y")).startswith(expected)
    assert door.turn.requests == []


async def test_message_without_a_delegation_begins_a_task(door: Any) -> None:
    assert (await send(door, "m1"))["id"] not in ("", "t")


async def test_delegation_follows_the_id_that_a_caller_chose(door: Any, log: TaskLog) -> None:
    """Callers of A2A 0.1 choose the ids of their tasks."""
    assert (await send_v01(door, "mine", task="other")).startswith(OTHER + "id")
    assert door.turn.requests == []
    task = await send_v01(door, "mine", task="mine")
    assert (task["id"], door.turn.requests[0].task_id) == ("mine", "mine")
    kept = await log.delegation(OWNER, "mine")
    assert kept is not None
    assert (await send_v01(door, "mine", task="mine"))["id"] == "mine"
