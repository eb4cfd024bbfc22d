"""The list of open approvals: its content, its bounds, and the long poll."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, TurnDone, TurnRequest

Open = Callable[..., Any]


def asks_with(
    arguments: dict[str, Any], *, title: str = "Charge?", detail: str = "30"
) -> Callable[[TurnRequest], AsyncIterator[Frame]]:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        if request.reply is not None:
            yield TurnDone("Done.")
            return
        payload = {"kind": "approval", "title": title, "detail": detail, "project": "team/echo"}
        yield InterruptRequest(InterruptKind.APPROVAL, "?", payload, f"ask-{request.task_id}", "pay", arguments)

    return script


async def test_open_approval_describes_the_call(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    task = await door.say("charge")
    (approval,) = await operator_of(door.url).open()
    created, expires = approval.pop("createdAt"), approval.pop("expiresAt")
    assert approval == {
        "task": task["id"],
        "context": task["contextId"],
        "ask": f"ask-{task['id']}-1",
        "tool": "house__charge_card",
        "title": "Charge 30?",
        "preview": '{"amount": 30}',
        "arguments": {"amount": 30},
        "argumentsDigest": "sha256:97ef99d80ae5b14a5eed5157adde3480d3c51fbbd2cc3b80d26e98d9b063b7ab",
        "requestedBy": "client:default",
        "chain": [],
    }
    assert created.endswith("Z")
    assert expires > created


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        pytest.param({"text": "x" * 4000}, True, id="arguments that fit"),
        pytest.param({"text": "x" * 4096}, False, id="arguments that are too large"),
        pytest.param({"text": "x" * 100_000}, False, id="arguments that are not stored as data"),
        pytest.param({f"k{n}": 1 for n in range(256)}, True, id="as many arguments as an Approval shows"),
        pytest.param({f"k{n}": 1 for n in range(257)}, False, id="too many arguments"),
        pytest.param({"password": "hunter2-hunter2"}, False, id="arguments with a secret"),
        pytest.param({"note": "mounted-secret"}, False, id="arguments with a mounted secret"),
        pytest.param({"id": 2**60}, False, id="a number that doubles cannot represent"),
        pytest.param({"a": [{"b": 1.5}, None, True]}, True, id="nested values"),
        pytest.param({"big": 10**15, "small": -3}, True, id="whole numbers"),
    ],
)
async def test_open_approval_shows_only_arguments_that_may_be_edited(
    open_door: Open, mounted: Any, operator_of: Any, arguments: dict[str, Any], shown: bool
) -> None:
    secrets = mounted.layout.configuration / "secrets"
    secrets.mkdir()
    (secrets / "key").write_text("mounted-secret")
    door = await open_door(asks_with(arguments))
    await door.say("pay")
    (approval,) = await operator_of(door.url).open()
    assert approval["arguments"] == (arguments if shown else None)
    assert len(approval["argumentsDigest"]) == len("sha256:") + 64
    edited = await operator_of(door.url).decide(approval, arguments={"other": 1})
    assert edited.status_code == 422
    assert ("are not shown" in edited.json()["message"]) is not shown
    assert (await operator_of(door.url).decide(approval)).status_code == 200


async def test_open_approval_is_bounded_and_redacted(open_door: Open, operator_of: Any) -> None:
    key = "sk-" + "a1" * 20
    door = await open_door(asks_with({}, title=f"{key} " + "t" * 300, detail=f"{key} " + "d" * 5000))
    await door.say("pay")
    (approval,) = await operator_of(door.url).open()
    assert (len(approval["title"]), len(approval["preview"])) == (256, 4096)
    assert key not in str(approval)


async def test_open_approvals_are_the_oldest_hundred(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any, asking: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(limits={"maxWaitingTasksPerCaller": 200}))
    door = await open_door(asking)
    tasks = [(await door.say("charge"))["id"] for _ in range(101)]
    found = await operator_of(door.url).open()
    assert len(found) == 100
    assert [each["createdAt"] for each in found] == sorted(each["createdAt"] for each in found)
    await operator_of(door.url).decide(found[0], "Denied")
    assert {each["task"] for each in await operator_of(door.url).open()} == {*tasks} - {found[0]["task"]}


async def test_questions_and_running_tasks_are_not_listed(open_door: Open, operator_of: Any) -> None:
    async def script(request: TurnRequest) -> AsyncIterator[Frame]:
        if request.text == "ask":
            yield InterruptRequest(InterruptKind.QUESTION, "Which?", {"question": "Which?"}, "1")
        else:
            await asyncio.Event().wait()

    door = await open_door(script)
    await door.say("ask")
    await door.say("run", now=True)
    assert await operator_of(door.url).open() == []


async def test_open_approvals_survive_a_restart(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    task = await door.say("charge")
    before = (await operator_of(door.url).read()).json()
    await door.app.aclose()
    again = await open_door(asking)
    after = (await operator_of(again.url).read()).json()
    assert after["open"] == before["open"]
    assert after["version"] != before["version"]
    assert (await operator_of(again.url).decide(after["open"][0])).json() == {"outcome": "accepted"}
    assert (await again.until(task["id"], "TASK_STATE_COMPLETED"))["id"] == task["id"]


async def test_long_poll_answers_when_approvals_change(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    empty = (await operator.read()).json()
    waiting = asyncio.create_task(operator.read(after=empty["version"], wait=25))
    await asyncio.sleep(0.2)
    assert not waiting.done()
    tasks = [(await door.say(text))["id"] for text in ("charge", "charge again")]
    changed = (await waiting).json()
    assert [each["task"] for each in changed["open"]] == tasks[:1], "the first change ends the wait"
    both = (await operator.read(after=changed["version"], wait=25)).json()
    assert {each["task"] for each in both["open"]} == {*tasks}
    waiting = asyncio.create_task(operator.read(after=both["version"], wait=25))
    await asyncio.sleep(0.2)
    for task in tasks:
        await door.call("CancelTask", {"id": task})
    assert [each["task"] for each in (await waiting).json()["open"]] == tasks[1:]


async def test_long_poll_without_a_change_ends_after_its_wait(open_door: Open, operator_of: Any) -> None:
    door = await open_door()
    operator = operator_of(door.url)
    version = (await operator.read()).json()["version"]
    begun = time.monotonic()
    assert (await operator.read(after=version, wait=1)).json() == {"version": version, "open": []}
    assert time.monotonic() - begun >= 0.9
    assert (await operator.read(after="another", wait=25)).json()["version"] == version


async def test_long_poll_ends_when_the_agent_drains(open_door: Open, operator_of: Any) -> None:
    door = await open_door()
    operator = operator_of(door.url)
    version = (await operator.read()).json()["version"]
    waiting = asyncio.create_task(operator.read(after=version, wait=25))
    await asyncio.sleep(0.2)
    async with within("a request that waits for changes ends with the agent"):
        await door.app.drain()
        assert (await waiting).status_code == 200
    later = await operator.read(after=version, wait=25)
    assert (later.status_code, later.headers["retry-after"]) == (503, "1")


async def test_erased_tasks_are_not_listed(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any, asking: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(administrators=["default"]))
    door = await open_door(asking)
    await door.say("charge", owner="client:other")
    operator = operator_of(door.url)
    (approval,) = await operator.open()
    async with door.http() as http:
        assert (await http.delete("/admin/memory?owner=client:other")).status_code == 200
    assert await operator.open() == []
    assert (await operator.decide(approval)).status_code == 404


@pytest.mark.parametrize(
    ("query", "problem"),
    [
        pytest.param({"wait": "26"}, "wait must be", id="a longer wait"),
        pytest.param({"wait": "-1"}, "wait must be", id="a negative wait"),
        pytest.param({"wait": "soon"}, "wait must be", id="not a number"),
        pytest.param({"since": "1"}, "'since'", id="an unknown parameter"),
    ],
)
async def test_invalid_read_names_the_parameter(
    open_door: Open, operator_of: Any, query: dict[str, str], problem: str
) -> None:
    door = await open_door()
    refused = await operator_of(door.url).read(**query)
    assert refused.status_code == 400
    assert problem in refused.json()["error"]["message"]
