"""Slow and late readers of a running task, runs that never end, and tasks that wait for their caller."""

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, Task, TaskArtifactUpdateEvent, TaskState, TaskStatus
from prometheus_client import CollectorRegistry
from tests.support.waiting import await_until, within

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.task_events import Event, agent_message, fold, status_event
from fleetwright_agent.protocol.termination_reasons import CANCELED, Termination
from fleetwright_agent.server.executors.port import Emit, TaskJob
from fleetwright_agent.server.executors.turn_loader import TurnLoader
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.question_release import QuestionRelease
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.memory.storage import memory_storage
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.open_questions import OpenQuestion, QuestionKey
from fleetwright_agent.storage.tasks.records import (
    AcceptedClaim,
    Claim,
    Key,
    StoredTask,
)
from fleetwright_agent.telemetry.metrics import Metrics

Open = Callable[..., Any]
WORKING, COMPLETED = TaskState.TASK_STATE_WORKING, TaskState.TASK_STATE_COMPLETED


def piece(text: str, *, append: bool = True) -> TaskArtifactUpdateEvent:
    artifact = Artifact(artifact_id="a", parts=[Part(text=text)])
    return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=artifact, append=append)


async def live_task(log: MemoryTaskLog) -> tuple[ActiveTasks, Any]:
    task = Task(id="t", context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    answer = await log.accept(Claim("o", "m", b"1"), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    tasks = ActiveTasks(log, Clock())
    return tasks, tasks.add(StoredTask(n=answer.n, owner="o", seq=1, busy=True, task=task))


@pytest.mark.parametrize(
    ("pieces", "most"),
    [
        pytest.param(3, 5, id="a reader that keeps up gets every piece"),
        pytest.param(500, 5, id="a reader that was away gets the pieces joined"),
        pytest.param(5000, 5, id="a reader that missed too much gets the whole artifact instead"),
    ],
)
async def test_active_task_sends_slow_readers_everything_and_the_end(pieces: int, most: int) -> None:
    _, live = await live_task(MemoryTaskLog())
    events = live.read()
    folded = await anext(events)
    live.append(status_event("t", "c", WORKING, at_ns=1))
    for number in range(pieces):
        live.append(piece(f"{number} ", append=number > 0))
    await live.rest((status_event("t", "c", COMPLETED, at_ns=2),))
    got = [event async for event in events]
    for event in got:
        fold(folded, event)
    assert folded == live.task
    assert folded.artifacts[0].parts[0].text.split() == [str(n) for n in range(pieces)]
    assert len(got) <= most


async def test_active_task_drops_events_after_the_end() -> None:
    _, live = await live_task(MemoryTaskLog())
    await live.rest((status_event("t", "c", COMPLETED, at_ns=2),))
    before = live.task
    live.append(piece("late"))
    assert live.task == before


async def test_active_tasks_drop_an_unread_task_at_rest() -> None:
    tasks, live = await live_task(MemoryTaskLog())
    await live.rest((status_event("t", "c", COMPLETED, at_ns=2),))
    assert tasks.known("o", "t") is live
    del live
    assert tasks.known("o", "t") is None


class Stubborn:
    """Work that ignores its cancellation."""

    def begin(self, job: TaskJob, emit: Emit) -> "Stubborn":
        return self

    async def run(self) -> Sequence[Event]:
        while True:
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if self.released:
                    raise

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return (status_event("t", "c", outcome.state, at_ns=1),)

    released = False


async def test_task_runner_abandons_work_that_ignores_cancellation() -> None:
    _, live = await live_task(MemoryTaskLog())
    work = Stubborn()
    runs = TaskRunner(
        work, limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock(), cleanup_seconds=0.05
    )
    runs.take_up(live, TaskJob(owner="o", task_id="t", context_id="c", message=Message()), then=lambda: None)()
    await asyncio.sleep(0)
    runs.stop(live, CANCELED)
    try:
        async with within("the task rests"):
            task = await live.rested()
        assert task.status.state == TaskState.TASK_STATE_CANCELED
    finally:
        work.released = True
    for left in asyncio.all_tasks() - {asyncio.current_task()}:
        left.cancel()


class Counting:
    """An executor whose work ends at once, and which counts the tasks."""

    def __init__(self) -> None:
        self.begun: list[str] = []

    def begin(self, job: TaskJob, emit: Emit) -> "Counted":
        return Counted(self, job)


class Counted:
    def __init__(self, executor: Counting, job: TaskJob) -> None:
        self._executor = executor
        self._job = job

    async def run(self) -> Sequence[Event]:
        self._executor.begun.append(self._job.task_id)
        return (status_event(self._job.task_id, "c", COMPLETED, at_ns=2),)

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return (status_event(self._job.task_id, "c", outcome.state, at_ns=2),)


async def another_task(log: MemoryTaskLog, tasks: ActiveTasks, name: str) -> Any:
    task = Task(id=name, context_id="c", status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED))
    answer = await log.accept(Claim("o", name, b"1"), task, at_ns=1)
    assert isinstance(answer, AcceptedClaim)
    return tasks.add(StoredTask(n=answer.n, owner="o", seq=1, busy=True, task=task))


async def test_task_runner_cancels_a_task_before_its_work_begins() -> None:
    _, live = await live_task(MemoryTaskLog())
    work = Counting()
    runs = TaskRunner(work, limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock())
    begin = runs.take_up(live, TaskJob(owner="o", task_id="t", context_id="c", message=Message()), then=lambda: None)
    await runs.cancel(live)
    assert (await live.rested()).status.state == TaskState.TASK_STATE_CANCELED
    begin()
    await asyncio.sleep(0)
    assert work.begun == []


async def test_task_runner_cancels_a_task_before_its_recovery() -> None:
    _, live = await live_task(MemoryTaskLog())
    runs = TaskRunner(Counting(), limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock())
    await asyncio.gather(runs.cancel(live), runs.cancel(live))
    assert (await live.rested()).status.state == TaskState.TASK_STATE_CANCELED
    assert runs.recover(live, share=lambda _: lambda: None)
    assert (len(runs), live.state) == (0, TaskState.TASK_STATE_CANCELED)


async def test_task_runner_counts_a_recovered_task_for_its_caller() -> None:
    _, live = await live_task(MemoryTaskLog())
    held: list[str] = []

    def share(taken: ActiveTask) -> Callable[[], None]:
        held.append(taken.owner)
        return lambda: held.remove(taken.owner)

    runs = TaskRunner(Counting(), limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock())
    assert not runs.recover(live, share=share), "the executor cannot resume tasks"
    assert held == []

    class Recovering(Counting):
        recovers = True

        def recover(self, job: TaskJob, emit: Emit) -> "Counted":
            return Counted(self, job)

    live.append(Message(message_id="m", role=Role.ROLE_USER))
    runs = TaskRunner(Recovering(), limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock())
    assert runs.recover(live, share=share)
    assert held == ["o"]
    await live.rested()
    await asyncio.sleep(0)
    assert held == []


async def test_active_tasks_do_not_revive_a_task_that_ended_meanwhile() -> None:
    class Slow(MemoryTaskLog):
        """A log whose first read returns the state from when the read began."""

        async def find(self, owner: str, task_id: str) -> StoredTask | None:
            if reading.is_set():
                return await super().find(owner, task_id)
            reading.set()
            await ended.wait()
            return StoredTask(n=1, owner="o", seq=1, busy=True, task=Task(id="t", context_id="c"))

    log, reading, ended = Slow(), asyncio.Event(), asyncio.Event()
    tasks = ActiveTasks(log, Clock())
    finding = asyncio.create_task(tasks.find("o", "t"))
    await reading.wait()
    live = await another_task(log, tasks, "t")
    await live.rest((status_event("t", "c", COMPLETED, at_ns=2),))
    del live
    ended.set()
    found = await finding
    assert found is not None
    assert found.resting


async def test_active_tasks_release_readers_of_waiting_tasks() -> None:
    tasks, live = await live_task(MemoryTaskLog())
    await live.rest((status_event("t", "c", TaskState.TASK_STATE_INPUT_REQUIRED, at_ns=2),))
    heard: list[Any] = []

    async def listen() -> None:
        heard.extend([event async for event in live.read()])

    listening = asyncio.create_task(listen())
    await asyncio.sleep(0.01)
    assert not listening.done()
    tasks.let_go()
    async with within("the reader ends"):
        await listening
        assert [event async for event in live.read()] == heard, "a new reader gets all events without waiting"
    assert len(heard) == 1


async def test_task_runner_starts_messages_of_a_context_in_order() -> None:
    log, work = MemoryTaskLog(), Counting()
    tasks, first = await live_task(log)
    second = await another_task(log, tasks, "second")
    runs = TaskRunner(work, limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock())
    jobs = [TaskJob(owner="o", task_id=name, context_id="c", message=Message()) for name in ("t", "second")]
    begins = [runs.take_up(live, job, then=lambda: None) for live, job in zip((first, second), jobs, strict=True)]
    for begin in reversed(begins):
        await asyncio.sleep(0.01)
        begin()
    await asyncio.gather(first.rested(), second.rested())
    assert work.begun == ["t", "second"]


async def test_task_runner_abandoned_work_does_not_block_its_context() -> None:
    log, stubborn = MemoryTaskLog(), Stubborn()
    tasks, first = await live_task(log)
    second = await another_task(log, tasks, "second")
    counting = Counting()

    class Either:
        def begin(self, job: TaskJob, emit: Emit) -> Any:
            return (stubborn if job.task_id == "t" else counting).begin(job, emit)

    runs = TaskRunner(
        Either(), limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock(), cleanup_seconds=0.05
    )
    for live, name in ((first, "t"), (second, "second")):
        runs.take_up(live, TaskJob(owner="o", task_id=name, context_id="c", message=Message()), then=lambda: None)()
    await asyncio.sleep(0.01)
    runs.stop(first, CANCELED)
    try:
        async with within("the second task rests"):
            assert (await second.rested()).status.state == COMPLETED
    finally:
        stubborn.released = True
    for left in asyncio.all_tasks() - {asyncio.current_task()}:
        left.cancel()


@pytest.mark.parametrize(
    ("state", "released"),
    [
        pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, [("o", "t")], id="it waits for its caller"),
        pytest.param(COMPLETED, [], id="it has ended before"),
        pytest.param(None, [("o", "t")], id="it waits for recovery"),
    ],
)
async def test_task_runner_releases_a_task_cancelled_without_run(state: TaskState | None, released: list[Any]) -> None:
    heard: list[tuple[str, str]] = []

    async def release(owner: str, task_id: str) -> None:
        heard.append((owner, task_id))

    _, live = await live_task(MemoryTaskLog())
    metrics = Metrics(CollectorRegistry())
    runs = TaskRunner(Counting(), limit=600, most=4, metrics=metrics, clock=Clock(), release=release)
    if state is not None:
        await live.rest((status_event("t", "c", state, at_ns=2),))
    await runs.cancel(live)
    assert heard == released


async def test_question_release_without_questions_builds_no_turn() -> None:
    built: list[str] = []

    class Released:
        def over(self, owner: str, task_id: str) -> None:
            built.append(task_id)

    questions = memory_storage().questions
    release = QuestionRelease(TurnLoader(lambda: Released()), questions).release  # type: ignore[arg-type,return-value]
    await release("o", "t")
    assert built == []
    await questions.put(OpenQuestion(QuestionKey("o", "c", "n/cook"), "theirs", "t"))
    await release("o", "t")
    assert built == ["t"]


class Forgetful:
    """Work that returns without a final state."""

    def begin(self, job: TaskJob, emit: Emit) -> "Forgetful":
        return self

    async def run(self) -> Sequence[Event]:
        return ()

    def cut(self, outcome: Termination) -> Sequence[Event]:
        raise AssertionError("nothing was cut")


async def test_task_runner_fails_work_that_ends_without_a_final_event(open_door: Open) -> None:
    door = await open_door(executor=Forgetful())
    task = await door.say("hello")
    assert task["status"]["state"] == "TASK_STATE_FAILED"


class Asking:
    """An executor that asks once, and answers with the reply."""

    def begin(self, job: TaskJob, emit: Emit) -> "AskingWork":
        return AskingWork(job, emit)


class AskingWork:
    def __init__(self, job: TaskJob, emit: Emit) -> None:
        self.job = job
        self.emit = emit

    def status(self, state: TaskState, text: str) -> Event:
        message = agent_message(text, message_id=f"agent {text}")
        return status_event(self.job.task_id, self.job.context_id, state, at_ns=1, message=message)

    async def run(self) -> Sequence[Event]:
        said = self.job.message.parts[0].text
        self.emit(self.status(WORKING, "thinking"))
        if said == "book it":
            return (self.status(TaskState.TASK_STATE_INPUT_REQUIRED, "For when?"),)
        return (self.status(COMPLETED, f"Booked for {said}."),)

    def cut(self, outcome: Termination) -> Sequence[Event]:
        return (self.status(outcome.state, outcome.sentence),)


async def test_waiting_task_resumes_with_the_answer(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    assert asked["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    wrong = {"message": {"messageId": "w", "role": "ROLE_USER", "parts": [{"text": "x"}], "taskId": asked["id"]}}
    wrong["message"]["contextId"] = "another"
    assert (await door.call("SendMessage", wrong))["error"]["code"] == -32602
    done = await door.say("Monday", taskId=asked["id"])
    assert done["id"] == asked["id"]
    assert done["contextId"] == asked["contextId"]
    assert done["status"]["message"]["parts"] == [{"text": "Booked for Monday."}]
    said = [message["parts"][0]["text"] for message in done["history"]]
    assert said == ["book it", "For when?", "Monday"]


async def test_task_history_size_is_limited(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    parts = [{"text": "book it"}, {"text": "x" * 900_000}]
    for number in range(20):
        message = {"messageId": f"m{number}", "role": "ROLE_USER", "parts": parts, "taskId": asked["id"]}
        answer = await door.call("SendMessage", {"message": message})
        if "error" in answer:
            break
    assert 8 <= number <= 9, "the limit is eight mebibytes"
    assert "has reached its maximum size" in answer["error"]["message"]
    kept = (await door.call("GetTask", {"id": asked["id"]}))["result"]
    assert kept["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_waiting_tasks_leave_no_asyncio_tasks(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    await door.say("book it")
    await asyncio.sleep(0.2)
    before = len(asyncio.all_tasks())
    for _ in range(20):
        await door.say("book it")
    await await_until(lambda: len(asyncio.all_tasks()) <= before, "the asyncio tasks of the readers end")


async def test_stream_of_an_answer_begins_with_the_working_task(
    open_door: Open, request_of: Callable[..., Any]
) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    async with door.client() as client:
        request = request_of("Monday", task_id=asked["id"])
        first, *rest = [event async for event in client.send_message(request)]
    assert first.task.status.state == WORKING
    assert not first.task.status.HasField("message")
    assert [message.parts[0].text for message in first.task.history] == ["book it", "For when?", "Monday"]
    assert not first.task.metadata, "the question is gone from the metadata"
    assert [event.status_update.status.state for event in rest] == [WORKING, COMPLETED]


async def test_nonblocking_answer_returns_the_working_task(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    told = await door.say("Monday", taskId=asked["id"], now=True)
    assert told["status"]["state"] == "TASK_STATE_WORKING"
    assert "message" not in told["status"]


async def test_waiting_task_limit_refuses_new_tasks_until_an_answer(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxWaitingTasksPerCaller": 2}))
    door = await open_door(executor=Asking())
    first, _ = [await door.say("book it", messageId=name) for name in ("first", "second")]
    body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage"}
    message = {"messageId": "third", "role": "ROLE_USER", "parts": [{"text": "book it"}]}
    async with door.http() as http:
        refused = await http.post("/a2a", json=body | {"params": {"message": message}})
        assert (refused.status_code, "2 tasks that wait" in refused.json()["error"]["message"]) == (429, True)
        assert refused.headers["retry-after"] == "60", "only the caller can free capacity"
        again = await http.post("/a2a/message:send", json={"message": message})
        assert (again.status_code, again.headers["retry-after"]) == (429, "60")
    assert (await door.say("book it", messageId="first"))["id"] == first["id"]
    assert (await door.say("book it", owner="client:other"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    await door.say("Monday", taskId=first["id"])
    assert (await door.say("book it", messageId="third"))["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"


async def test_cancel_task_ends_a_waiting_task(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    ended = await door.call("CancelTask", {"id": asked["id"]})
    assert ended["result"]["status"]["state"] == "TASK_STATE_CANCELED"
    assert (await door.get(asked["id"]))["status"]["state"] == "TASK_STATE_CANCELED"


@pytest.mark.parametrize(
    ("part", "told"),
    [
        pytest.param({"content": {"$case": "text", "value": "Monday"}}, "Booked for Monday.", id="a text"),
        pytest.param({"content": {"$case": "data", "value": {"day": "Monday"}}}, "Booked for .", id="data"),
        pytest.param({"content": {"$case": "raw", "value": "x"}}, None, id="not bytes, which are no JSON there"),
        pytest.param({"content": "Monday"}, None, id="not what is no such part"),
        pytest.param({"content": {"$case": ["text"], "value": "x"}}, None, id="not a case that is none"),
    ],
)
async def test_message_part_in_protobuf_ts_form_is_read(open_door: Open, part: Any, told: str | None) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [part], "taskId": asked["id"]}
    answer = await door.call("SendMessage", {"message": message})
    if told is None:
        assert answer["error"]["code"] == -32005
    else:
        status = answer["result"]["task"]["status"]
        assert (status["state"], status["message"]["parts"]) == ("TASK_STATE_COMPLETED", [{"text": told}])


async def test_subscribe_to_a_waiting_task_omits_caller_messages(open_door: Open) -> None:
    door = await open_door(executor=Asking())
    asked = await door.say("book it")
    body = {"jsonrpc": "2.0", "id": 1, "method": "SubscribeToTask", "params": {"id": asked["id"]}}
    results = []
    async with door.http() as http, http.stream("POST", "/a2a", json=body) as stream:
        async for line in stream.aiter_lines():
            if line.startswith("data: "):
                results.append(json.loads(line[6:])["result"])
                if len(results) == 1:
                    await door.say("Monday", taskId=asked["id"])
    assert [kind for result in results for kind in result] == ["task", *["statusUpdate"] * 3]
    states = [result["statusUpdate"]["status"]["state"] for result in results[1:]]
    assert states == ["TASK_STATE_WORKING", "TASK_STATE_WORKING", "TASK_STATE_COMPLETED"]


class Returning(Stubborn):
    """A stubborn executor whose tasks the next process resumes."""

    recovers = True

    def recover(self, job: TaskJob, emit: Emit) -> Stubborn:
        return self


@pytest.mark.parametrize(
    ("last", "left"),
    [
        pytest.param("stop", False, id="that is cancelled meanwhile is cancelled"),
        pytest.param("leave", True, id="that nobody cancels is left to the next process"),
    ],
)
async def test_task_runner_drain_leaves_work_unless_it_is_cancelled(last: str, left: bool) -> None:
    stubborn = Returning()
    _, live = await live_task(MemoryTaskLog())
    runs = TaskRunner(
        stubborn, limit=600, most=4, metrics=Metrics(CollectorRegistry()), clock=Clock(), cleanup_seconds=0.3
    )
    runs.take_up(live, TaskJob(owner="o", task_id="t", context_id="c", message=Message()), then=lambda: None)()
    await asyncio.sleep(0.01)
    draining = asyncio.create_task(runs.drain(0))
    await asyncio.sleep(0.05)
    if last == "stop":
        await runs.cancel(live)
    try:
        async with within("the task rests and the agent is drained"):
            task = await live.rested()
            await draining
    finally:
        stubborn.released = True
    assert (task.status.state == TaskState.TASK_STATE_CANCELED, live.busy) == (not left, left)
    for other in asyncio.all_tasks() - {asyncio.current_task()}:
        other.cancel()


def test_active_tasks_do_not_find_tasks_deleted_from_the_log() -> None:
    tasks = ActiveTasks(MemoryTaskLog(), Clock())
    held = []
    for name, state in (("old", TaskState.TASK_STATE_COMPLETED), ("asks", TaskState.TASK_STATE_INPUT_REQUIRED)):
        task = Task(id=name, status=TaskStatus(state=state))
        held.append(tasks.add(StoredTask(n=len(held), owner="me", seq=1, busy=False, task=task, updated_ns=5)))
    tasks.forget_ended(5)
    assert tasks.known("me", "old") is held[0], "the task is exactly as old as the limit"
    tasks.forget_ended(6)
    assert (tasks.known("me", "old"), tasks.known("me", "asks")) == (None, held[1])
    tasks.forget([Key("me", "asks")])
    assert tasks.known("me", "asks") is None
