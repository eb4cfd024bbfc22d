"""Faults that a public server must survive: locked or truncated files, slow or vanishing readers, storms."""

import asyncio
import json
import socket
import sqlite3
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types import Part
from a2a.types.a2a_pb2 import Message, Role, Task, TaskState, TaskStatus
from tests.support.waiting import await_until, within

from fleetwright_a2a.task_events import Event, status_event
from fleetwright_agent.protocol.frames import Frame, Text, TurnDone, TurnRequest
from fleetwright_agent.protocol.termination_reasons import Termination
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.tasks.task_log import SqliteTaskLog
from fleetwright_agent.storage.tasks.records import Claim

Open = Callable[..., Any]
TERMINAL = ("COMPLETED", "FAILED", "CANCELED", "REJECTED")
RESTING = (*TERMINAL, "INPUT_REQUIRED", "AUTH_REQUIRED")


class Ends(AgentExecutor):
    """An executor that leaves each task in the state that its message names."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        task = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await task.start_work()
        await task.add_artifact([Part(text="so far")], name="answer")
        ends = {
            "COMPLETED": task.complete,
            "FAILED": task.failed,
            "CANCELED": task.cancel,
            "REJECTED": task.reject,
            "INPUT_REQUIRED": task.requires_input,
            "AUTH_REQUIRED": task.requires_auth,
        }
        await ends[context.get_user_input()]()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """No resources to release."""


@pytest.mark.parametrize("state", [pytest.param(state, id=f"a task that is {state}") for state in RESTING])
async def test_r2_resting_task_is_available_after_a_restart(open_door: Open, state: str) -> None:
    first = await open_door(executor=Ends())
    task = await first.say(state)
    assert task["status"]["state"] == f"TASK_STATE_{state}"
    await first.app.drain()
    await first.app.aclose()

    second = await open_door(executor=Ends())
    assert await second.get(task["id"]) == task
    if state in TERMINAL:
        assert (await second.call("SubscribeToTask", {"id": task["id"]}))["error"]["code"] == -32004
        return
    async with second.http() as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": task["id"]}}
        async with http.stream("POST", "/a2a", json=body) as stream:
            events = (json.loads(line[6:])["result"] async for line in stream.aiter_lines() if line[:6] == "data: ")
            assert (await anext(events))["task"]["status"] == task["status"]
            assert (await second.say("COMPLETED", taskId=task["id"]))["id"] == task["id"]
            after = [event async for event in events]
    assert after[-1]["statusUpdate"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_r3_locked_task_log_is_waited_for(open_door: Open, mounted: Any) -> None:
    path = mounted.layout.memory / "tasks.db"
    first = await open_door()
    task = await first.say("hello")
    await first.app.aclose()
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("PRAGMA locking_mode = EXCLUSIVE")
    holder.execute("BEGIN EXCLUSIVE")
    door = await open_door(retry_seconds=0.05)
    async with door.ops() as ops:
        held = await ops.get("/readyz")
        assert (held.status_code, "locked" in held.text) == (503, True)
        refused = await door.http().__aenter__()
        assert (await refused.post("/a2a", json=_send("x"))).status_code == 503
        await refused.aclose()
        holder.execute("COMMIT")
        holder.close()
        async with within("the agent is ready"):
            while (await ops.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.05)
    assert await door.get(task["id"]) == task


def _torn(content: bytes) -> bytes:
    return content[:4096] + b"\xff" * 8192 + content[12288:]


def _newer(content: bytes) -> bytes:
    """Return the file with a newer `user_version`, at its offset in the SQLite format."""
    return content[:60] + (99).to_bytes(4) + content[64:]


def _another(content: bytes) -> bytes:
    return b"not a database at all" * 1000


@pytest.mark.parametrize(
    ("file", "spoiled", "says"),
    [
        pytest.param("tasks.db", _torn, "damaged and was kept as", id="a torn page of the task log"),
        pytest.param("tasks.db", _another, "damaged and was kept as", id="a task log that is something else"),
        pytest.param("tasks.db", _newer, "newer version", id="a task log of a newer version"),
        pytest.param("conversations.db", _another, "conversations.db", id="conversations that are something else"),
        pytest.param("conversations.db", _newer, "newer version", id="conversations of a newer version"),
    ],
)
async def test_r3_untrusted_file_is_kept_and_fails_readiness(
    open_door: Open, mounted: Any, file: str, spoiled: Callable[[bytes], bytes], says: str
) -> None:
    path: Path = mounted.layout.memory / file
    first = await open_door()
    for number in range(20):
        await first.say(f"hello {number}")
    await first.app.drain()
    await first.app.aclose()
    wrong = spoiled(_content(path))
    _put(path, wrong)
    door = await open_door(retry_seconds=60)
    async with door.ops() as ops:
        ready = await ops.get("/readyz")
    assert (ready.status_code, says in ready.text) == (503, True), ready.text
    # SQLite may change its header, the first hundred bytes, when it opens the file.
    # The process tries again meanwhile, and SQLite removes the files of its write-ahead log.
    kept = [
        each
        for each in path.parent.iterdir()
        if each.name.startswith(file) and not each.name.endswith(("-wal", "-shm"))
    ]
    assert wrong[100:] in [_content(each)[100:] for each in kept]
    if file == "tasks.db":
        async with door.http() as http:
            refused = await http.post("/a2a", json=_send("late"))
            assert (refused.status_code, says in refused.text) == (503, False)


async def test_r3_damaged_log_moved_away_needs_no_restart(open_door: Open, mounted: Any) -> None:
    path: Path = mounted.layout.memory / "tasks.db"
    _put(path, b"not a database at all" * 1000)
    door = await open_door(retry_seconds=0.05)
    async with door.ops() as ops:
        assert "is damaged and was kept as" in (await ops.get("/readyz")).text
        next(path.parent.glob("tasks.db.damaged-*")).unlink()
        async with within("the agent is ready"):
            while (await ops.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.02)
    assert (await door.say("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_r3_transient_read_failure_of_the_log_needs_no_restart(open_door: Open, mounted: Any) -> None:
    log = SqliteTaskLog(mounted.layout.memory / "tasks.db")
    door = await open_door(log=log, retry_seconds=0.02)
    failing = True
    await log._read(lambda c: c.set_progress_handler(lambda: failing, 1))
    async with door.ops() as ops:
        async with within("the agent says that a file cannot be read"):
            while "cannot be read" not in (await ops.get("/readyz")).text:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.02)
        await asyncio.sleep(0.1)
        failing = False
        async with within("the agent is ready"):
            while (await ops.get("/readyz")).status_code != 200:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.02)
    assert (await door.say("hello"))["status"]["state"] == "TASK_STATE_COMPLETED"


async def test_r3_truncated_write_ahead_log_loses_only_its_end(open_door: Open, mounted: Any) -> None:
    path: Path = mounted.layout.memory / "tasks.db"
    first = await open_door()
    tasks = [await first.say(f"hello {n}") for n in range(20)]
    # Copy the files as a power loss leaves them, while the process has both files open.
    wal = path.with_name("tasks.db-wal")
    whole, ahead = _content(path), _content(wal)
    await first.app.aclose()
    path.with_name("tasks.db-shm").unlink(missing_ok=True)
    _put(path, whole)
    _put(wal, ahead[: len(ahead) * 2 // 3])

    door = await open_door()
    found = [await door.call("GetTask", {"id": task["id"]}) for task in tasks]
    there = ["result" in answer for answer in found]
    assert there == sorted(there, reverse=True), "a loss removes only the end of the log"
    assert any(there)
    kept = [answer["result"] for answer in found if "result" in answer]
    whole = [task for task in kept if task["status"]["state"] == "TASK_STATE_COMPLETED"]
    assert whole == tasks[: len(whole)]
    # The task whose end is lost still counts as running.
    assert [task["status"]["state"] for task in kept[len(whole) :]] in ([], ["TASK_STATE_FAILED"])


def _content(path: Path) -> bytes:
    return path.read_bytes()


def _put(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _send(text: str, method: str = "SendMessage") -> dict[str, Any]:
    said = {"messageId": f"m {text}", "role": "ROLE_USER", "parts": [{"text": text}]}
    return {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"message": said}}


def _raw(door: Any, text: str) -> bytes:
    body = json.dumps(_send(text, "SendStreamingMessage")).encode()
    head = (
        "POST /a2a HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nA2A-Version: 1.0\r\n"
        f"Authorization: Bearer token-of-default\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


def _address(door: Any) -> tuple[str, int]:
    host, port = door.url.removeprefix("http://").split(":")
    return host, int(port)


async def test_r9_slow_reader_gets_every_event_and_delays_no_other(open_door: Open) -> None:
    async def floods(request: TurnRequest) -> AsyncIterator[Frame]:
        for _ in range(400):
            yield Text("x" * 1000)
            await asyncio.sleep(0)
        yield TurnDone("x" * 400_000)

    door = await open_door(floods)
    narrow = socket.socket()
    narrow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    narrow.setblocking(False)
    loop = asyncio.get_running_loop()
    await loop.sock_connect(narrow, _address(door))
    await loop.sock_sendall(narrow, _raw(door, "slow"))
    heard = bytearray()
    for _ in range(100):
        heard += await loop.sock_recv(narrow, 1)
        await asyncio.sleep(0.002)
    quick = await door.say("quick")
    assert quick["status"]["state"] == "TASK_STATE_COMPLETED"
    async with within("the whole response arrives"):
        while not heard.endswith(b"0\r\n\r\n"):
            heard += await loop.sock_recv(narrow, 65536)
    narrow.close()
    text = heard.decode()
    assert "TASK_STATE_COMPLETED" in text
    assert '"lastChunk":true' in text.replace(" ", "")
    assert "x" * 400_000 in text


async def test_r9_vanishing_readers_leak_nothing_and_tasks_continue(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxConcurrentTurns": 100}))

    async def waits(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Waiting. ")
        await asyncio.sleep(500)
        yield TurnDone("Waited.")

    door = await open_door(waits)
    warm = await door.say("warm", now=True)
    await door.until(warm["id"], "TASK_STATE_WORKING")
    await asyncio.sleep(0.5)
    before = len(asyncio.all_tasks())
    loop = asyncio.get_running_loop()
    storm = []
    for number in range(90):
        reader = socket.socket()
        reader.setblocking(False)
        await loop.sock_connect(reader, _address(door))
        await loop.sock_sendall(reader, _raw(door, f"storm {number}"))
        storm.append(reader)
    for reader in storm:
        assert b"200 OK" in await loop.sock_recv(reader, 65536)
    for reader in storm:
        # Send a TCP reset instead of a normal close.
        reader.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        reader.close()
    working = {"pageSize": 100, "status": "TASK_STATE_WORKING"}
    async with within("ninety-one tasks run"):
        # Some tasks were accepted, but had not started when their readers left.
        while len(tasks := (await door.call("ListTasks", working))["result"]["tasks"]) < 91:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.05)
    for task in tasks:
        await door.call("CancelTask", {"id": task["id"]})
    await await_until(lambda: len(asyncio.all_tasks()) <= before + 2, "the tasks of the readers end")


class Torn(MemoryTaskLog):
    """A log that fails to write final states: the first one always, after storing it, and the others once each."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: set[int] = set()
        self.looks = 0

    async def rest(self, run: Any, records: Any, task: Any, *, expires_ns: int | None = None) -> None:
        if run.n not in self.failed:
            self.failed.add(run.n)
            if run.n == 1:
                await super().rest(run, records, task, expires_ns=expires_ns)
            raise TaskLogUnavailable("disk I/O error")
        await super().rest(run, records, task, expires_ns=expires_ns)

    async def expired(self, now_ns: int) -> Any:
        self.looks += 1
        return await super().expired(now_ns)


async def test_already_stored_end_does_not_block_other_ends(open_door: Open) -> None:
    log = Torn()
    door = await open_door(log=log, retry_seconds=0.02)
    tasks = [await door.say(f"hello {number}") for number in range(4)]
    assert {task["status"]["state"] for task in tasks} == {"TASK_STATE_FAILED"}
    looks = log.looks
    async with within("no task runs after two more looks at the log"):
        while log.looks <= looks + 1 or await log.busy():  # noqa: ASYNC110 - a log tells nobody
            await asyncio.sleep(0.02)
    kept = [await log.find("client:default", task["id"]) for task in tasks]
    completed, failed = TaskState.TASK_STATE_COMPLETED, TaskState.TASK_STATE_FAILED
    assert [stored.task.status.state for stored in kept if stored] == [completed, failed, failed, failed]


class FullOnce(MemoryTaskLog):
    """A log that fails to write its first final state."""

    full = True

    async def rest(self, *arguments: Any, **named: Any) -> None:
        if self.full:
            self.full = False
            raise TaskLogUnavailable("no space left")
        await super().rest(*arguments, **named)


class Lasting:
    """An executor that resumes every interrupted task except the task `lost`, and never ends."""

    recovers = True

    def __init__(self) -> None:
        self.taken_up: list[str] = []

    def begin(self, job: TaskJob, emit: Emit) -> "Lasting":
        return self

    def recover(self, job: TaskJob, emit: Emit) -> "Lasting | None":
        self.taken_up.append(job.task_id)
        return None if job.task_id == "lost" else self

    async def run(self) -> Sequence[Event]:
        await asyncio.Event().wait()
        return ()

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return (status_event("lasting", "c", outcome.state, at_ns=1),)


async def test_recovered_task_is_not_recovered_twice_after_log_failure(open_door: Open) -> None:
    log, executor = FullOnce(), Lasting()
    for name in ("lost", "lasting"):
        task = Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
        task.history.append(Message(message_id=name, role=Role.ROLE_USER))
        await log.accept(Claim("client:default", name, b""), task, at_ns=1)
    door = await open_door(log=log, executor=executor, retry_seconds=0.02)
    await door.until("lost", "TASK_STATE_FAILED")
    assert executor.taken_up == ["lost", "lasting", "lost"]
    canceled = await door.call("CancelTask", {"id": "lasting"})
    assert canceled["result"]["status"]["state"] == "TASK_STATE_CANCELED"


STEPS = 6


@pytest.mark.parametrize("step", [pytest.param(n, id=f"after frame {n}") for n in range(STEPS)])
async def test_r13_cancel_at_any_step_ends_the_task_once(open_door: Open, step: int) -> None:
    reached, gate = asyncio.Event(), asyncio.Event()

    async def steps(request: TurnRequest) -> AsyncIterator[Frame]:
        for number in range(STEPS):
            if number == step:
                reached.set()
                await gate.wait()
            yield Text(f"{number} ")
        yield TurnDone("all of it")

    door = await open_door(steps)
    task = await door.say("go", now=True)
    await reached.wait()
    cancelled = (await door.call("CancelTask", {"id": task["id"]}))["result"]
    gate.set()
    assert cancelled["status"]["state"] == "TASK_STATE_CANCELED"
    said = "".join(part["text"] for artifact in cancelled.get("artifacts", []) for part in artifact["parts"])
    assert said == "".join(f"{n} " for n in range(step))
    await asyncio.sleep(0.05)
    assert await door.get(task["id"]) == cancelled


async def test_r13_concurrent_cancels_end_the_task_once(open_door: Open) -> None:
    async def waits(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("Waiting. ")
        await asyncio.sleep(60)
        yield TurnDone("Waited.")

    door = await open_door(waits)
    task = await door.say("go", now=True)
    await door.until(task["id"], "TASK_STATE_WORKING")
    answers = await asyncio.gather(*(door.call("CancelTask", {"id": task["id"]}) for _ in range(40)))
    ended = await door.get(task["id"])
    assert ended["status"]["state"] == "TASK_STATE_CANCELED"
    for answer in answers:
        assert answer.get("result") == ended or answer["error"]["code"] == -32002
