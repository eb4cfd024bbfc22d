"""Push notifications from a real server to receivers that accept, reject or delay them."""

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.tasks import TaskUpdater
from a2a.types.a2a_pb2 import Message, Part, Role, Task, TaskPushNotificationConfig, TaskState
from tests.support.waiting import await_until

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest
from fleetwright_agent.server.push.service import DeliveryTimes
from fleetwright_agent.storage.memory.push_store import MemoryPushStore
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog

HANG = 0
LONGER_THAN_ANY_CEILING = 24 * 3600.0


async def gated(request: TurnRequest) -> AsyncIterator[Frame]:
    """Yield twenty words, one every 50 ms, and then the answer."""
    for number in range(20):
        yield Text(f"word {number} ")
        await asyncio.sleep(0.05)
    yield TurnDone("The whole answer.")


def speaks_until(gate: asyncio.Event) -> Any:
    """Return a turn that yields a word every 50 ms until the test opens the gate, and then answers."""

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        while not gate.is_set():
            yield Text("word ")
            await asyncio.sleep(0.05)
        yield TurnDone("The whole answer.")

    return script


def held_back(gate: asyncio.Event) -> Any:
    """Return a turn that answers once the test opens the gate."""

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        await gate.wait()
        yield TurnDone("The whole answer.")

    return script


async def at_once(request: TurnRequest) -> AsyncIterator[Frame]:
    yield TurnDone(f"You said: {request.text}")


def said(text: str, config: dict[str, Any] | None = None, *, now: bool = True) -> dict[str, Any]:
    body = {"messageId": f"m-{text}", "role": "ROLE_USER", "parts": [{"text": text}]}
    wanted = {"taskPushNotificationConfig": config} if config else {}
    return {"message": body, "configuration": {"returnImmediately": now, **wanted}}


async def sent(door: Any, text: str, config: dict[str, Any], **options: Any) -> dict[str, Any]:
    answer = await door.call("SendMessage", said(text, config, **options))
    assert "error" not in answer, answer
    task: dict[str, Any] = answer["result"]["task"]
    return task


async def counted(door: Any, outcome: str) -> float:
    async with door.ops() as http:
        lines = (await http.get("/metrics")).text.splitlines()
    line = next(each for each in lines if each.startswith(f'fleetwright_push_deliveries_total{{outcome="{outcome}"}}'))
    return float(line.rsplit(" ", 1)[1])


async def status(door: Any) -> dict[str, Any]:
    async with door.ops() as http:
        report: dict[str, Any] = (await http.get("/status")).json()["push"]
        return report


async def test_push_final_notification_has_the_task_and_both_headers(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    task = await sent(door, "hello", {"url": hook.url, "token": "t-1"})
    await hook.until_state("COMPLETED")
    headers, body = hook.heard[-1]
    assert headers["authorization"] == "Bearer t-1"
    assert headers["x-a2a-notification-token"] == "t-1"
    assert headers["content-type"] == "application/json"
    assert body == {"task": await door.get(task["id"])}
    assert body["task"]["artifacts"][0]["parts"] == [{"text": "You said: hello"}]


@pytest.mark.parametrize(
    ("given", "authorization", "token"),
    [
        pytest.param({}, None, None, id="nothing given is nothing sent"),
        pytest.param({"token": "t"}, "Bearer t", "t", id="a token stands in both headers"),
        pytest.param(
            {"authentication": {"scheme": "Bearer", "credentials": "c"}}, "Bearer c", "c",
            id="so do credentials",
        ),
        pytest.param(
            {"token": "t", "authentication": {"scheme": "Bearer", "credentials": "c"}}, "Bearer c", "t",
            id="each in its own where both are given",
        ),
        pytest.param(
            {"authentication": {"scheme": "Basic", "credentials": "dTpw"}}, "Basic dTpw", None,
            id="another scheme is sent as it is",
        ),
    ],
)  # fmt: skip
async def test_push_credentials_are_sent_as_headers(
    open_push: Any, receive: Any, given: dict[str, Any], authorization: str | None, token: str | None
) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    await sent(door, "hello", {"url": hook.url, **given})
    await hook.until_state("COMPLETED")
    headers, _ = hook.heard[-1]
    assert (headers.get("authorization"), headers.get("x-a2a-notification-token")) == (authorization, token)


async def test_push_delivery_retries_twice_with_backoff(open_push: Any, receive: Any) -> None:
    hook = await receive(500, 503, 200)
    door = await open_push(hook, script=at_once, times=DeliveryTimes(pauses=(0.3, 0.6)))
    await sent(door, "hello", {"url": hook.url})
    await hook.until(3)
    first, second, third = hook.at
    print(f"repeated after {second - first:.2f} s and {third - second:.2f} s; the pauses are 0.3 s and 0.6 s")  # noqa: T201 - the figure
    assert 0.3 <= second - first < 30
    assert 0.6 <= third - second < 30
    await await_until(lambda: _is(door, "delivered", 1), "the delivery is counted")
    assert (await counted(door, "retried"), await counted(door, "dead")) == (2, 0)


async def test_push_retry_counts_as_undelivered_until_it_succeeds(open_push: Any, receive: Any) -> None:
    hook = await receive(500, 200)
    door = await open_push(hook, script=at_once, times=DeliveryTimes(pauses=(5.0,)))
    await sent(door, "hello", {"url": hook.url})
    await await_until(lambda: _is_undelivered(door, 1, has_time=True), "the retry counts as undelivered")
    await hook.until(2)
    await await_until(lambda: _is_undelivered(door, 0, has_time=False), "nothing counts as undelivered")


async def _is_undelivered(door: Any, number: int, *, has_time: bool) -> bool:
    async with door.ops() as http:
        report = (await http.get("/status")).json()["activity"]
    due = report["nextWakeAt"] is not None and report["nextWakeAt"] < _hour_later()
    return (report["undeliveredPushes"], due) == (number, has_time)


def _hour_later() -> str:
    """An hour from now. The retention time of the task ends later."""
    return (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


async def _is(door: Any, outcome: str, number: float) -> bool:
    return await counted(door, outcome) == number


async def _lists(door: Any, number: int) -> bool:
    return bool((await status(door))["dead"] == number)


@pytest.mark.parametrize(
    ("script", "attempts", "reason"),
    [
        pytest.param([500], 3, "it responds with status 500", id="after three attempts"),
        pytest.param([HANG], 3, "it did not answer within 1 s", id="after three hangs"),
        pytest.param([429, 408, 200], 3, None, id="not because it is busy"),
        pytest.param([404], 1, "it rejects the notification with status 404", id="at once where it refuses"),
        pytest.param(
            [302], 1, "it redirects: register the address that it redirects to", id="at once where it redirects"
        ),
    ],
)
async def test_push_delivery_gives_up_and_reports_the_reason(
    open_push: Any, receive: Any, script: list[int], attempts: int, reason: str | None
) -> None:
    trap, hook = await receive(), await receive(*script)
    hook.location = trap.url
    attempt = 1.0 if HANG in script else 60.0
    door = await open_push(hook, script=at_once, times=DeliveryTimes(attempt=attempt, pauses=(0.05, 0.05)))
    task = await sent(door, "hello", {"url": hook.url})
    await hook.until(attempts)
    await await_until(lambda: _is(door, "dead" if reason else "delivered", 1), "the end of the delivery is counted")
    await await_until(lambda: _lists(door, 1 if reason else 0), "the status lists the failures")
    await asyncio.sleep(0.3)
    assert len(hook.heard) == attempts
    assert trap.heard == []
    report = await status(door)
    if reason is None:
        assert report == {"dead": 0, "newest": []}
        return
    (newest,) = report["newest"]
    assert (report["dead"], newest["task"], newest["reason"]) == (1, task["id"], reason)
    assert newest["host"] == f"127.0.0.1:{hook.port}"


async def test_push_slow_receiver_does_not_delay_others(open_push: Any, receive: Any) -> None:
    slow, quick = await receive(HANG), await receive()
    door = await open_push(slow, quick, script=at_once, times=DeliveryTimes(attempt=LONGER_THAN_ANY_CEILING))
    for number in range(12):
        await sent(door, f"slow {number}", {"url": slow.url}, now=False)
    await slow.until(4)
    started = asyncio.get_running_loop().time()
    for number in range(12):
        await sent(door, f"quick {number}", {"url": quick.url}, now=False)
    await quick.until(12)
    took = asyncio.get_running_loop().time() - started
    print(f"the quick receiver had its notifications after {took:.2f} s")  # noqa: T201 - the figure
    assert (slow.most_at_once, len(slow.heard)) == (4, 4)


async def test_push_updates_are_debounced_and_the_end_is_immediate(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=gated, times=DeliveryTimes(debounce=0.15))
    started = asyncio.get_running_loop().time()
    await sent(door, "hello", {"url": hook.url})
    await hook.until_state("COMPLETED")
    took = asyncio.get_running_loop().time() - started
    assert 2 <= hook.states.count("WORKING") <= took / 0.15
    assert hook.states[-1] == "COMPLETED"
    assert hook.heard[-1][1]["task"]["artifacts"][0]["parts"] == [{"text": "The whole answer."}]
    shown = [body["task"]["artifacts"][0]["parts"][0]["text"] for _, body in hook.heard[:-1]]
    assert shown == sorted(shown, key=len)
    await asyncio.sleep(0.5)
    assert hook.states[-1] == "COMPLETED"


async def test_push_short_task_sends_one_notification(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once, times=DeliveryTimes(debounce=4.0))
    await sent(door, "hello", {"url": hook.url}, now=False)
    await hook.until(1)
    await asyncio.sleep(4.2)
    assert hook.states == ["COMPLETED"]


async def test_push_late_registration_gets_later_updates_or_the_end(open_push: Any, receive: Any) -> None:
    """A receiver that registers during the task gets later updates; one that registers after it gets the end."""
    during, after = await receive(), await receive()
    door = await open_push(during, after, script=gated)
    task = await door.say("hello", now=True)
    created = await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": during.url})
    assert created["result"] == {"taskId": task["id"], "id": task["id"], "url": during.url}
    await during.until_state("COMPLETED")
    await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": "late", "url": after.url})
    await after.until(1)
    assert after.states == ["COMPLETED"]


async def test_push_configs_are_managed_by_their_owner_only(open_push: Any, receive: Any) -> None:
    hook, remaining, gate = await receive(), await receive(), asyncio.Event()
    door = await open_push(hook, remaining, script=speaks_until(gate))
    task = await door.say("hello", now=True)
    place = {"taskId": task["id"]}
    secret = {"token": "t", "authentication": {"scheme": "Bearer", "credentials": "never-told-again"}}
    for name in ("b", "a"):
        answer = await door.call("CreateTaskPushNotificationConfig", {**place, "id": name, "url": hook.url, **secret})
        assert "never-told-again" not in str(answer)
    read = await door.call("GetTaskPushNotificationConfig", {**place, "id": "a"})
    shown = {**place, "id": "a", "url": hook.url, "token": "t", "authentication": {"scheme": "Bearer"}}
    assert read["result"] == shown
    first = (await door.call("ListTaskPushNotificationConfigs", {**place, "pageSize": 1}))["result"]
    assert first == {"configs": [shown], "nextPageToken": "a"}
    rest = await door.call("ListTaskPushNotificationConfigs", {**place, "pageToken": "a"})
    assert rest["result"] == {"configs": [{**shown, "id": "b"}]}

    other = {"owner": "client:other"}
    for method in ("Get", "List", "Delete"):
        name = f"{method}TaskPushNotificationConfig{'s' if method == 'List' else ''}"
        answer = await door.call(name, {**place, **({} if method == "List" else {"id": "a"})}, **other)
        assert answer["error"]["code"] == -32001, method
    made = await door.call("CreateTaskPushNotificationConfig", {**place, "url": hook.url}, **other)
    assert made["error"]["code"] == -32001

    for _ in range(2):
        assert "error" not in await door.call("DeleteTaskPushNotificationConfig", {**place, "id": "a"})
    assert (await door.call("GetTaskPushNotificationConfig", {**place, "id": "a"}))["error"]["code"] == -32001
    await door.call("DeleteTaskPushNotificationConfig", {**place, "id": "b"})
    await door.call("CreateTaskPushNotificationConfig", {**place, "id": "remaining", "url": remaining.url})
    await remaining.until(1)  # Notifications that were in flight at the removal have arrived before.
    heard = len(hook.heard)
    await remaining.until(3)
    gate.set()
    await remaining.until_state("COMPLETED")
    assert len(hook.heard) == heard


async def test_push_removal_keeps_pending_updates_of_other_receivers(open_push: Any, receive: Any) -> None:
    async def speaks(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("so far ")
        await asyncio.sleep(60)

    leaves, stays = await receive(), await receive()
    door = await open_push(leaves, stays, script=speaks, times=DeliveryTimes(debounce=4.0))
    task = await sent(door, "hello", {"id": "stays", "url": stays.url})
    await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": "leaves", "url": leaves.url})
    await door.until(task["id"], "TASK_STATE_WORKING")
    await door.call("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "leaves"})
    await stays.until(1)
    assert (stays.states, leaves.heard) == (["WORKING"], [])


async def test_push_configs_are_limited_to_ten_and_replaceable(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=held_back(asyncio.Event()))
    task = await door.say("hello", now=True)
    for number in range(10):
        await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": f"{number}", "url": hook.url})
    eleventh = {"taskId": task["id"], "id": "more", "url": hook.url}
    refused = await door.call("CreateTaskPushNotificationConfig", eleventh)
    assert refused["error"]["code"] == -32004
    assert "delete one first" in refused["error"]["message"]
    assert "error" not in await door.call("CreateTaskPushNotificationConfig", {**eleventh, "id": "3"})


async def test_push_answer_with_an_eleventh_receiver_is_refused(open_push: Any, receive: Any) -> None:
    async def asks(request: TurnRequest) -> AsyncIterator[Frame]:
        if request.reply is None:
            yield InterruptRequest(InterruptKind.QUESTION, "For when?", {}, identity="1")
        else:
            yield TurnDone("Booked.")

    hook = await receive()
    door = await open_push(hook, script=asks)
    task = await sent(door, "book", {"id": "0", "url": hook.url}, now=False)
    for number in range(1, 10):
        await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "id": f"{number}", "url": hook.url})
    body = said("Monday", {"id": "more", "url": hook.url}, now=False)
    body["message"]["taskId"] = task["id"]
    refused = await door.call("SendMessage", body)
    assert (refused["error"]["code"], "delete one first" in refused["error"]["message"]) == (-32004, True)
    assert (await door.get(task["id"]))["status"] == task["status"]
    body["configuration"]["taskPushNotificationConfig"]["id"] = "3"
    answered = await door.call("SendMessage", body)
    assert answered["result"]["task"]["status"]["state"] == "TASK_STATE_COMPLETED"
    assert len(door.turn.requests) == 2


@pytest.mark.parametrize(
    ("config", "named"),
    [
        pytest.param({"url": "http://10.0.0.1/hook"}, "url", id="an address inside"),
        pytest.param({"url": "http://169.254.169.254/latest"}, "url", id="metadata"),
        pytest.param({"url": "http://127.0.0.1:7871/metrics"}, "url", id="our own second port"),
        pytest.param({"url": "http://2130706433/hook"}, "url", id="an address as a number"),
        pytest.param({"url": "ftp://127.0.0.1/hook"}, "url", id="another scheme"),
        pytest.param({"url": "http://nowhere.invalid/hook"}, "url", id="a name that is not known"),
        pytest.param({"token": "a\r\nX-Other: b"}, "token", id="a token that begins another header"),
        pytest.param({"token": "x" * 5000}, "token", id="a token without end"),
        pytest.param(
            {"authentication": {"scheme": "Bearer", "credentials": "a\nb"}}, "credentials",
            id="credentials that begin another header",
        ),
        pytest.param({"authentication": {"scheme": "B:\r\n", "credentials": "a"}}, "scheme", id="a scheme that does"),
        pytest.param({"id": "x" * 200}, "id", id="an id without end"),
    ],
)  # fmt: skip
async def test_push_invalid_config_is_refused_with_its_message(
    open_push: Any, receive: Any, config: dict[str, Any], named: str
) -> None:
    hook = await receive()
    door = await open_push(hook, script=at_once)
    answer = await door.call("SendMessage", said("hello", {"url": hook.url, **config}))
    assert answer["error"]["code"] == -32602
    assert named in answer["error"]["message"]
    assert (await door.call("ListTasks", {}))["result"]["tasks"] == []
    task = await door.say("another")
    made = await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": hook.url, **config})
    assert made["error"]["code"] == -32602


async def test_push_denied_ranges_override_the_allowed_cidrs(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(cidrs=["127.0.0.0/8"], script=at_once, config={"deniedRanges": ["127.0.0.1/32"]})
    task = await door.say("hello")
    answer = await door.call("CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": hook.url})
    assert answer["error"]["code"] == -32602
    other = await door.call(
        "CreateTaskPushNotificationConfig", {"taskId": task["id"], "url": hook.url.replace("127.0.0.1", "127.0.0.2")}
    )
    assert "error" not in other, "an address outside the denied range is allowed"


async def test_push_unknown_and_forbidden_names_have_the_same_error(open_push: Any) -> None:
    door = await open_push(script=at_once)
    task = await door.say("hello")
    told = set()
    for host in ("nowhere.invalid", "localhost"):
        place = {"taskId": task["id"], "url": f"http://{host}/hook"}
        answer = await door.call("CreateTaskPushNotificationConfig", place)
        told.add(answer["error"]["message"].replace(host, "HOST"))
    assert len(told) == 1


async def test_push_registration_is_refused_if_push_is_disabled(open_door: Any) -> None:
    door = await open_door()
    task = await door.say("hello")
    url = {"url": "https://hooks.example.com/"}
    for method, params in (
        ("CreateTaskPushNotificationConfig", {"taskId": task["id"], **url}),
        ("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": "a"}),
        ("ListTaskPushNotificationConfigs", {"taskId": task["id"]}),
        ("DeleteTaskPushNotificationConfig", {"taskId": task["id"], "id": "a"}),
        ("SendMessage", said("again", url)),
    ):
        assert (await door.call(method, params))["error"]["code"] == -32003, method


async def test_push_credentials_are_encrypted_with_rotatable_keys(open_push: Any, receive: Any, mounted: Any) -> None:
    hook, gate = await receive(), asyncio.Event()
    door = await open_push(hook, script=held_back(gate))
    config = {
        "url": hook.url,
        "token": "token-in-clear",
        "authentication": {"scheme": "Bearer", "credentials": "c-c-c"},
    }
    task = await sent(door, "hello", config)
    files = [file.read_bytes() for file in mounted.layout.memory.iterdir() if file.is_file()]
    assert any(hook.url.encode() in each for each in files)
    assert not any(b"token-in-clear" in each or b"c-c-c" in each for each in files)
    keys = mounted.layout.configuration / "push/keys"
    keys.write_text("A" * 43 + "=\n" + keys.read_text())
    gate.set()
    await hook.until_state("COMPLETED")
    assert hook.heard[-1][0]["authorization"] == "Bearer c-c-c"
    keys.write_text("B" * 42 + "A=\n")
    late = await door.call("GetTaskPushNotificationConfig", {"taskId": task["id"], "id": task["id"]})
    assert "token" not in late["result"]


async def _has_dead(door: Any) -> bool:
    """Return True if the status page lists a dead notification; the page lags behind the metric."""
    return bool((await status(door))["newest"])


async def test_push_lost_key_gives_up_instead_of_sending_unsigned(open_push: Any, receive: Any, mounted: Any) -> None:
    hook, gate = await receive(), asyncio.Event()
    door = await open_push(hook, script=held_back(gate), times=DeliveryTimes(debounce=30))
    await sent(door, "hello", {"url": hook.url, "token": "t"})
    (mounted.layout.configuration / "push/keys").write_text("B" * 42 + "A=\n")
    gate.set()
    await await_until(lambda: _has_dead(door), "the delivery is given up")
    assert hook.heard == []
    assert "register the receiver again" in (await status(door))["newest"][0]["reason"]


async def test_push_invalid_keys_fail_readiness(open_push: Any, mounted: Any) -> None:
    door = await open_push()
    (mounted.layout.configuration / "push/keys").write_text("short")
    async with door.ops() as http:
        ready = await http.get("/readyz")
    assert (ready.status_code, ready.text) == (503, "keys is not valid: its lines must be URL-safe base64\n")


async def test_push_message_is_refused_if_credentials_cannot_be_stored(
    open_push: Any, receive: Any, mounted: Any
) -> None:
    hook = await receive()
    door = await open_push(hook)
    (mounted.layout.configuration / "push/keys").write_text("short")
    configuration = {"taskPushNotificationConfig": {"url": hook.url, "token": "t"}}
    message = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hello"}]}
    async with door.http() as http:
        params = {"message": message, "configuration": configuration}
        body = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params}
        refused = await http.post("/a2a", json=body)
    assert (refused.status_code, "cannot be stored" in refused.text) == (503, True), refused.text
    assert (await door.call("ListTasks", {}))["result"]["totalSize"] == 0
    assert door.turn.requests == []


class SlowStore(MemoryPushStore):
    """A store whose registration is slow, and which signals its start."""

    def __init__(self, log: MemoryTaskLog) -> None:
        super().__init__(log._task_of)
        self.registering = asyncio.Event()

    async def register(self, *args: Any, **options: Any) -> bool:
        self.registering.set()
        await asyncio.sleep(0.2)
        return await super().register(*args, **options)


async def test_push_refresh_during_registration_loses_nothing(open_push: Any, receive: Any) -> None:
    log = MemoryTaskLog()
    log.pushes = store = SlowStore(log)
    hook, gate = await receive(), asyncio.Event()
    door = await open_push(hook, script=speaks_until(gate), log=log)
    task = await door.say("hello", now=True)
    config = {"taskId": task["id"], "url": hook.url}
    registering = asyncio.ensure_future(door.call("CreateTaskPushNotificationConfig", config))
    await store.registering.wait()
    await door.app._pushes.refresh()
    await registering
    await hook.until_state("WORKING")
    gate.set()
    await hook.until_state("COMPLETED")


async def test_push_notifies_of_failed_and_cancelled_tasks(open_push: Any, receive: Any) -> None:
    async def breaks(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("so far ")
        if request.text == "break":
            raise RuntimeError("inside")
        await asyncio.sleep(60)

    hook = await receive()
    door = await open_push(hook, script=breaks)
    await sent(door, "break", {"url": hook.url})
    await hook.until_state("FAILED")
    task = await sent(door, "wait", {"url": hook.url})
    await door.call("CancelTask", {"id": task["id"]})
    await hook.until_state("CANCELED")
    assert "inside" not in str(hook.heard)


class Asks(AgentExecutor):
    """Work that runs for a while, asks a question, and completes after the answer."""

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        if context.current_task is not None and context.current_task.status.state != TaskState.TASK_STATE_SUBMITTED:
            await updater.complete()
            return
        await event_queue.enqueue_event(
            Task(id=context.task_id, context_id=context.context_id, status={"state": TaskState.TASK_STATE_SUBMITTED})
        )
        await updater.start_work()
        await asyncio.sleep(0.05)
        question = Message(message_id="q", role=Role.ROLE_AGENT, parts=[Part(text="Which one?")])
        await updater.requires_input(question)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        """No resources to release."""


async def test_push_interrupt_and_end_replace_a_pending_update(open_push: Any, receive: Any) -> None:
    hook = await receive()
    door = await open_push(hook, executor=Asks(), times=DeliveryTimes(debounce=2.0))
    task = await sent(door, "hello", {"url": hook.url})
    await hook.until(1)
    assert hook.heard[0][1]["task"]["status"]["message"]["parts"] == [{"text": "Which one?"}]
    await asyncio.sleep(2.2)
    answer = said("the blue one")
    answer["message"]["taskId"] = task["id"]
    await door.call("SendMessage", answer)
    await hook.until(2)
    await asyncio.sleep(2.2)
    assert hook.states == ["INPUT_REQUIRED", "COMPLETED"]


async def test_push_works_with_the_sdk_client(open_push: Any, receive: Any, request_of: Any) -> None:
    hook = await receive()
    door = await open_push(hook, script=gated)
    task = await door.say("hello", now=True)
    async with door.client() as client:
        config = TaskPushNotificationConfig(task_id=task["id"], url=hook.url, token="t")
        made = await client.create_task_push_notification_config(config)
        assert made.url == hook.url
    await hook.until_state("COMPLETED")
