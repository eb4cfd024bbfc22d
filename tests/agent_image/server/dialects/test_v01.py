"""A2A 0.1 through the server, beyond the transcripts: ids that callers choose, history, errors and late readers."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.agent.executors import ScriptedExecutor, reply_with_greeting
from tests.support.waiting import await_until, within

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.extensions import KAGENT_HITL
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest

Open = Callable[..., Any]


def send(task_id: str, text: str = "hello", **more: Any) -> dict[str, Any]:
    return {"id": task_id, "message": {"role": "user", "parts": [{"type": "text", "text": text}]}} | more


TEXT = {"type": "text", "text": "hello"}
DATA = {"type": "data", "data": {"name": "Ada"}}


def carrying(task_id: str, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"id": task_id, "message": {"role": "user", "parts": list(parts)} | more}


async def endless(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text("So far so good.")
    await asyncio.Event().wait()


async def at_work(caller: Any, task_id: str) -> None:
    """Wait until the task runs and has produced output."""
    async with within("the task shows an artifact"):
        shown: dict[str, Any] = {}
        while "artifacts" not in shown:
            await asyncio.sleep(0.01)
            shown = (await caller.call("tasks/get", {"id": task_id})).get("result", {})


async def test_v01_session_is_the_context_of_later_tasks(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        first = (await caller.call("tasks/send", send("a")))["result"]
        assert first["sessionId"].startswith("a2a-")
        await caller.call("tasks/send", send("b", sessionId=first["sessionId"]))
    assert {request.context_id for request in door.turn.requests} == {first["sessionId"]}


async def test_v01_history_length_limits_the_history(open_door: Open, raw: Any) -> None:
    door = await open_door()
    said = {"role": "user", "parts": [{"type": "text", "text": "hello"}]}
    async with raw(door) as caller:
        assert (await caller.call("tasks/send", send("a")))["result"]["history"] == []
        assert (await caller.call("tasks/get", {"id": "a"}))["result"]["history"] == []
        assert (await caller.call("tasks/get", {"id": "a", "historyLength": 5}))["result"]["history"] == [said]
        assert (await caller.call("tasks/send", send("b", historyLength=1)))["result"]["history"] == [said]


async def test_v01_task_ids_belong_to_their_owner(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as one, raw(door, "client:other") as other:
        mine = (await one.call("tasks/send", send("same", "mine")))["result"]
        theirs = (await other.call("tasks/send", send("same", "theirs")))["result"]
    assert [t["artifacts"][0]["parts"][0]["text"] for t in (mine, theirs)] == ["You said: mine", "You said: theirs"]


async def test_v01_repeated_request_returns_the_same_task(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        first, again = await asyncio.gather(*(caller.call("tasks/send", send("a")) for _ in range(2)))
        late = await caller.call("tasks/send", send("a"))
    assert first == again == late
    assert len(door.turn.requests) == 1


async def test_v01_task_id_is_refused_for_a_different_message(open_door: Open, raw: Any) -> None:
    door = await open_door()
    async with raw(door) as caller:
        answers = await asyncio.gather(*(caller.call("tasks/send", send("a", text)) for text in ("one", "two")))
        refused = [answer["error"] for answer in answers if "error" in answer]
        assert [error["code"] for error in refused] == [-32009]
        late = (await caller.call("tasks/send", send("a", "three")))["error"]
    assert late["code"] == -32009
    assert late["message"] == (
        "The task is completed and takes no further message; send another id with its sessionId to continue"
    )
    assert len(door.turn.requests) == 1


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(1, 2, id="in requests with ids of their own"),
        pytest.param(1, "1", id="in requests whose ids differ in kind"),
        pytest.param(None, None, id="in requests without ids"),
    ],
)
async def test_v01_same_text_answers_two_questions(
    open_door: Open, written: Any, raw: Any, first: Any, second: Any
) -> None:
    script = {"begin": ["ask: Sure?"], "yes": ["ask: Really?"]}
    executor = written(script)
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", "begin"))
        await caller.call("tasks/send", send("a", "yes"), request_id=first)
        script["yes"] = ["Done."]
        ended = (await caller.call("tasks/send", send("a", "yes"), request_id=second))["result"]
    assert ended["status"]["state"] == "completed"
    assert len(executor.jobs) == 3


@pytest.mark.parametrize("restarted", [False, True], ids=["in one process", "over a restart"])
async def test_v01_constant_request_ids_can_answer_two_questions(
    open_door: Open, written: Any, raw: Any, restarted: bool
) -> None:
    """A 0.1 client that uses one request id for all requests can answer two questions with the same text."""
    script = {"begin": ["ask: Sure?"], "yes": ["ask: Really?"]}
    executor = written(script)
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", "begin"), request_id=1)
        again = (await caller.call("tasks/send", send("a", "begin"), request_id=1))["result"]
        assert again["status"]["message"]["parts"][0]["text"] == "Sure?", "the first message is not an answer"
        asked = (await caller.call("tasks/send", send("a", "yes"), request_id=1))["result"]
        assert asked["status"]["message"]["parts"][0]["text"] == "Really?"
    if restarted:
        await door.app.aclose()
        door = await open_door(executor=executor)
    script["yes"] = ["Done."]
    async with raw(door) as caller:
        ended = (await caller.call("tasks/send", send("a", "yes"), request_id=1))["result"]
        late = (await caller.call("tasks/send", send("a", "yes"), request_id=1))["result"]
    assert ended["status"]["state"] == late["status"]["state"] == "completed"
    assert len(executor.jobs) == 3


async def test_v01_possibly_repeated_answer_approves_nothing(open_door: Open, raw: Any) -> None:
    """An answer that may be a retransmission approves nothing unless it names the question."""

    async def approving(request: TurnRequest) -> AsyncIterator[Frame]:
        approved.append(request.reply)
        payload = {"kind": "approval", "title": "t", "detail": "{}", "project": "p"}
        yield InterruptRequest(
            InterruptKind.APPROVAL, f"Pay {10 ** len(approved)}?", payload, identity=f"{len(approved)}", tool="pay"
        )

    approved: list[Any] = []
    door = await open_door(approving)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", "begin"), request_id=1)
        for _ in range(2):
            asked = (await caller.call("tasks/send", send("a", "yes"), request_id=1))["result"]["status"]
            assert (asked["state"], asked["message"]["parts"][0]["text"]) == ("input-required", "Pay 100?")
        assert len(approved) == 2
        named = {"metadata": {"https://fleetwright.dev/a2a/ask/v1": {"id": "2"}}}
        said = send("a", "yes")
        said["message"] |= named
        surely = (await caller.call("tasks/send", said, request_id=1))["result"]["status"]
    assert surely["message"]["parts"][0]["text"] == "Pay 1000?"


@pytest.mark.parametrize("method", ["tasks/send", "tasks/sendSubscribe"])
async def test_v01_repeated_answer_does_not_answer_the_next_question(
    open_door: Open, written: Any, raw: Any, method: str
) -> None:
    script = {"begin": ["ask: Pay 10?"], "yes": ["ask: Pay 1000?"]}
    executor = written(script)
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", "begin"))
        asked = (await caller.call("tasks/send", send("a", "yes"), request_id="r-1"))["result"]
        if method == "tasks/send":
            again = (await caller.call(method, send("a", "yes"), request_id="r-1"))["result"]["status"]
        else:
            (said,) = await caller.stream(method, send("a", "yes"), request_id="r-1")
            again = json.loads(said)["result"]["status"]
        assert (again["state"], again["message"]["parts"][0]["text"]) == ("input-required", "Pay 1000?")
        script["no"] = ["Paid 10."]
        await caller.call("tasks/send", send("a", "no"), request_id="r-2")
        late = (await caller.call("tasks/send", send("a", "yes"), request_id="r-1"))["result"]
    assert (asked["status"]["state"], late["status"]["state"]) == ("input-required", "completed")
    assert len(executor.jobs) == 3


async def test_v01_repeated_answer_is_recognised_at_the_task_limit(
    open_door: Open, written: Any, raw: Any, mounted: Any, documents: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxTasksPerCaller": 1}))
    executor = written({"begin": ["ask: Sure?"], "yes": ["ask: Really?"], "work": ["say: On it.", "wait"]})
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", "begin"))
        await caller.call("tasks/send", send("a", "yes"), request_id="r-1")
        working = asyncio.create_task(caller.call("tasks/send", send("b", "work")))
        await await_until(lambda: len(executor.jobs) >= 3, "the executor gets three jobs")
        again = (await caller.call("tasks/send", send("a", "yes"), request_id="r-1"))["result"]
        assert again["status"]["state"] == "input-required"
        await caller.call("tasks/cancel", {"id": "b"})
        await working


@pytest.mark.parametrize(
    ("first", "text"),
    [
        pytest.param("begin", "yes", id="by the id of its request and what it says"),
        pytest.param("yes", "yes", id="by the words with which the task began"),
    ],
)
async def test_v01_ambiguous_late_answer_is_refused_with_the_remedy(
    open_door: Open, written: Any, raw: Any, first: str, text: str
) -> None:
    """An answer that equals an earlier one is refused after a minute; the error asks for a new request id."""
    passed = 0
    clock = Clock(now_ns=lambda: time.time_ns() + passed * 10**9)
    executor = written({"begin": ["ask: Sure?"], "yes": ["ask: Really?"], "certainly": ["Done."]})
    door = await open_door(executor=executor, clock=clock)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a", first), request_id="first")
        if first != text:
            await caller.call("tasks/send", send("a", text))
        for passed in (30, 59):  # noqa: B007 - the clock reads it
            again = (await caller.call("tasks/send", send("a", text)))["result"]["status"]
            assert again["message"]["parts"][0]["text"] == "Really?"
        passed = 61
        error = (await caller.call("tasks/send", send("a", text)))["error"]
        assert (error["code"], "a request with a new id" in error["message"]) == (-32600, True)
        ended = (await caller.call("tasks/send", send("a", "certainly")))["result"]["status"]
        assert ended["state"] == "completed"
        assert (await caller.call("tasks/send", send("a", text)))["result"]["status"]["state"] == "completed"


ERRORS = [
    pytest.param("tasks/get", {"id": "x"}, -32001, "Task not found", id="a task nobody knows"),
    pytest.param("tasks/cancel", {"id": "done"}, -32002, "completed already", id="cancelling what has ended"),
    pytest.param("tasks/send", {"id": "x"}, -32602, "message", id="no message"),
    pytest.param("tasks/send", send(""), -32602, "id", id="an id that is empty"),
    pytest.param("tasks/send", send("i" * 129), -32602, "longer than 128", id="an id too long"),
    pytest.param("tasks/send", send("x", historyLength=-1), -32602, "historyLength", id="a negative history"),
    pytest.param("tasks/send", send("x", contextId="c"), -32602, "sessionId", id="a context under its later name"),
    pytest.param("tasks/send", send("done", sessionId="other"), -32602, "sessionId", id="a task in another session"),
    pytest.param(
        "tasks/send",
        {"id": "x", "message": {"role": "user", "parts": [{"kind": "text", "text": "x"}]}},
        -32602,
        "message.parts.0",
        id="a part of a later dialect",
    ),
    pytest.param(
        "tasks/send",
        {"id": "x", "message": {"role": "user", "parts": [{"type": "file", "file": {"bytes": "eA=="}}]}},
        -32005,
        "takes text",
        id="a file for an agent that reads text",
    ),
    pytest.param("tasks/send", carrying("x", TEXT, DATA), -32005, "text only", id="a first message of text and data"),
    pytest.param("tasks/send", carrying("x", DATA), -32005, "text only", id="a first message of data"),
    pytest.param("tasks/send", carrying("done", DATA), -32009, "completed", id="data for a task that has ended"),
    pytest.param(
        "tasks/send",
        carrying("x", {"type": "text", "text": " "}, metadata={KAGENT_HITL: {"decision_type": "approve"}}),
        -32602,
        "must hold text",
        id="a decision about a task nobody knows",
    ),
]


@pytest.mark.parametrize(("method", "params", "code", "says"), ERRORS)
async def test_v01_errors_have_code_and_message(
    open_door: Open, raw: Any, method: str, params: dict[str, Any], code: int, says: str
) -> None:
    door = await open_door()
    async with raw(door) as caller:
        await caller.call("tasks/send", send("done"))
        error = (await caller.call(method, params))["error"]
    assert (error["code"], "data" in error) == (code, False)
    assert says in error["message"]


async def test_v01_answer_to_a_form_may_be_data_only(open_door: Open, raw: Any) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        if request.reply is None:
            yield InterruptRequest(InterruptKind.FORM, "Who?", {"question": "Who?"}, identity="1", tool="ask_human")
        else:
            yield TurnDone(f"Hello, {request.reply.value['name']}")

    door = await open_door(script)
    async with raw(door) as caller:
        await caller.call("tasks/send", send("a"))
        first = (await caller.call("tasks/send", carrying("a", DATA)))["result"]
        again = (await caller.call("tasks/send", carrying("a", DATA)))["result"]
    assert first["artifacts"][0]["parts"] == [{"type": "text", "text": "Hello, Ada"}]
    assert again["artifacts"] == first["artifacts"]


async def test_v01_is_unavailable_while_the_agent_drains(open_door: Open, raw: Any) -> None:
    door = await open_door()
    await door.app.drain()
    async with raw(door) as caller:
        body = {"jsonrpc": "2.0", "id": 7, "method": "tasks/send", "params": send("a")}
        response = await caller.http.post("/a2a", json=body)
        known = await caller.call("tasks/get", {"id": "x"})
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
    assert (response.json()["id"], response.json()["error"]["code"]) == (7, -32011)
    assert known["error"]["code"] == -32001


async def test_v01_cancel_stops_a_running_task_by_its_chosen_id(open_door: Open, raw: Any) -> None:
    door = await open_door(endless)
    async with raw(door) as caller:
        sending = asyncio.create_task(caller.call("tasks/send", send("a")))
        await at_work(caller, "a")
        cancelled = (await caller.call("tasks/cancel", {"id": "a"}))["result"]
        assert cancelled["status"]["state"] == "canceled"
        assert (await sending)["result"]["status"]["state"] == "canceled"


async def test_v01_resubscribe_sends_later_events_and_one_end(open_door: Open, raw: Any) -> None:
    more = asyncio.Event()

    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield Text("first ")
        await more.wait()
        yield TurnDone("first second")

    door = await open_door(script)
    async with raw(door) as caller:
        sending = asyncio.create_task(caller.call("tasks/send", send("a")))
        await at_work(caller, "a")
        reading = asyncio.create_task(caller.stream("tasks/resubscribe", {"id": "a"}))
        await asyncio.sleep(1)
        more.set()
        told = [json.loads(text)["result"] for text in await reading]
        await sending
        over = [json.loads(text) for text in await caller.stream("tasks/resubscribe", {"id": "a"})]
    assert [set(each) for each in told] == [{"id", "artifact"}, {"id", "status", "final"}]
    assert told[0]["artifact"]["parts"][0]["text"] == "first second"
    assert (told[0]["artifact"]["append"], told[0]["artifact"]["lastChunk"]) == (False, True)
    assert [each["error"]["code"] for each in over] == [-32009]


async def test_v01_resubscribe_to_a_waiting_task_ends_at_once(open_door: Open, raw: Any) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        yield InterruptRequest(InterruptKind.QUESTION, "Sure?", {"question": "Sure?"}, identity="1", tool="ask_human")

    door = await open_door(script)
    async with raw(door) as caller, within("the stream of a task that asks ends"):
        await caller.call("tasks/send", send("a"))
        told = [json.loads(text)["result"] for text in await caller.stream("tasks/resubscribe", {"id": "a"})]
    assert [(each["status"]["state"], each["final"]) for each in told] == [("input-required", True)]


async def test_task_is_readable_in_every_dialect(open_door: Open, raw: Any) -> None:
    door = await open_door()
    task = await door.say("hello")
    async with raw(door) as caller:
        await caller.call("tasks/send", send("old"))
        old = await door.get("old")
        assert old["metadata"] == {"https://fleetwright.dev/a2a/chosen-id/v1": True}
        for task_id, version, field in (
            ("old", None, "sessionId"),
            ("old", "0.1", "sessionId"),
            ("old", "0.3", "kind"),
            (task["id"], None, "kind"),
            (task["id"], "0.3", "kind"),
            (task["id"], "0.1", "sessionId"),
        ):
            headers = {"A2A-Version": version} if version else {}
            shown = (await caller.call("tasks/get", {"id": task_id}, **headers))["result"]
            assert field in shown, (task_id, version)
            assert not {"sessionId", "kind"} <= set(shown)
            assert "chosen-id" not in json.dumps(shown) or field == "kind"


async def test_v01_repeated_first_message_does_not_answer_a_question(open_door: Open, written: Any, raw: Any) -> None:
    executor = written({"pay the bill": ["ask: Shall I?"], "yes": ["Paid."]})
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        asked = await caller.call("tasks/send", send("a", text="pay the bill"))
        again = await caller.call("tasks/send", send("a", text="pay the bill"))
        assert again["result"] == asked["result"]
        assert asked["result"]["status"]["state"] == "input-required"
        done = await caller.call("tasks/send", send("a", text="yes"))
    assert done["result"]["status"]["state"] == "completed"
    assert len(executor.jobs) == 2


@pytest.mark.parametrize("history_length", [0, 5])
async def test_v01_reply_that_is_a_message_is_a_completed_task(open_door: Open, raw: Any, history_length: int) -> None:
    executor = ScriptedExecutor(reply_with_greeting)
    door = await open_door(executor=executor)
    async with raw(door) as caller:
        task, again = [
            (await caller.call("tasks/send", send("a", "Ida", historyLength=history_length)))["result"]
            for _ in range(2)
        ]
        read = (await caller.call("tasks/get", {"id": "a", "historyLength": history_length}))["result"]
    reply = {"role": "agent", "parts": [{"type": "text", "text": "Hello, Ida."}]}
    assert task == again == read
    assert (task["id"], task["status"]["state"], task["status"]["message"]) == ("a", "completed", reply)
    assert task["sessionId"]
    assert executor.runs == 1


async def test_v01_stream_ends_with_a_reply_that_is_a_message(open_door: Open, raw: Any) -> None:
    door = await open_door(executor=ScriptedExecutor(reply_with_greeting))
    async with raw(door) as caller:
        told = [json.loads(each)["result"] for each in await caller.stream("tasks/sendSubscribe", send("a", "Ida"))]
    assert (told[-1]["id"], told[-1]["final"], told[-1]["status"]["state"]) == ("a", True, "completed")
    assert told[-1]["status"]["message"] == {"role": "agent", "parts": [{"type": "text", "text": "Hello, Ida."}]}
