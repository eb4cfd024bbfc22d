"""Decisions about approvals: exactly one counts, and only for what the person has seen."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.support.waiting import within

from fleetwright_a2a.clock import Clock
from fleetwright_agent.protocol.frames import Frame, InterruptKind, InterruptRequest, Text, TurnDone, TurnRequest

Open = Callable[..., Any]
ANSWER = "https://fleetwright.dev/a2a/answer/v1"
INPUT_REQUIRED, COMPLETED = "TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"


def stamps(task: dict[str, Any]) -> list[dict[str, Any]]:
    return [each["metadata"][ANSWER] for each in task["history"] if ANSWER in each.get("metadata", {})]


@pytest.mark.parametrize(
    ("decision", "body", "reply", "stamped"),
    [
        pytest.param("Approved", {}, {"approved": True}, {"decision": "approved"}, id="an approval"),
        pytest.param("Denied", {}, {"approved": False}, {"decision": "declined"}, id="a denial"),
        pytest.param(
            "Denied",
            {"reason": "too much"},
            {"approved": False, "reason": "too much"},
            {"decision": "declined", "reason": "too much"},
            id="a denial with a reason",
        ),
        pytest.param(
            "Approved",
            {"arguments": {"amount": 30.0}},
            {"approved": True},
            {"decision": "approved"},
            id="an approval that repeats the arguments",
        ),
    ],
)
async def test_decision_continues_the_task_and_is_stamped(
    open_door: Open, operator_of: Any, asking: Any, decision: str, body: Any, reply: Any, stamped: Any
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    answer = await operator.decide(approval, decision, **body)
    assert (answer.status_code, answer.json()) == (200, {"outcome": "accepted"})
    done = await door.until(task["id"], COMPLETED)
    assert door.turn.requests[-1].reply.value == reply
    (stamp,) = stamps(done)
    assert stamp.pop("at")
    assert stamp.pop("messageId")
    assert stamp == {"ask": approval["ask"], "by": "user:alice", "tool": "house__charge_card", **stamped}
    assert await operator.open() == []


async def test_same_decision_again_is_accepted_and_another_is_refused(
    open_door: Open, operator_of: Any, asking: Any
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    for _ in range(2):
        assert (await operator.decide(approval, "Denied", reason="no")).json() == {"outcome": "accepted"}
        await door.until(task["id"], COMPLETED)
    for other in ({"decision": "Approved"}, {"decision": "Denied", "reason": "never"}, {"decidedBy": "bob"}):
        late = await operator.decide(approval, **{"decision": "Denied", "reason": "no", **other})
        assert late.status_code == 409
        told = late.json()
        assert told.pop("decidedAt").endswith("Z")
        assert told == {"outcome": "decided", "decision": "Denied", "decidedBy": "alice"}
    assert len(door.turn.requests) == 2, "the task continued once"


async def test_one_of_two_concurrent_decisions_counts(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    people = [f"person-{number}" for number in range(8)]
    answers = await asyncio.gather(
        *[
            operator.decide(approval, "Approved" if number % 2 else "Denied", decidedBy=each)
            for number, each in enumerate(people)
        ]
    )
    assert sorted(answer.status_code for answer in answers) == [200, *[409] * 7]
    winner = next(person for person, answer in zip(people, answers, strict=True) if answer.status_code == 200)
    assert {answer.json()["decidedBy"] for answer in answers if answer.status_code == 409} == {winner}
    (stamp,) = stamps(await door.until(task["id"], COMPLETED))
    assert stamp["by"] == f"user:{winner}"
    assert len(door.turn.requests) == 2


async def test_concurrent_repetitions_of_a_decision_count_once(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    answers = await asyncio.gather(*[operator.decide(approval) for _ in range(5)])
    assert [answer.json() for answer in answers] == [{"outcome": "accepted"}] * 5
    await door.until(task["id"], COMPLETED)
    assert len(door.turn.requests) == 2


async def test_decision_after_an_answer_of_the_caller_learns_who_answered(
    open_door: Open, operator_of: Any, asking: Any
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    await door.say("yes", taskId=task["id"])
    late = await operator.decide(approval, "Denied")
    assert (late.status_code, late.json()["decidedBy"], late.json()["decision"]) == (409, "client:default", "Approved")


async def test_answer_of_the_caller_after_a_decision_is_refused(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    await operator.decide(approval, "Denied")
    await door.until(task["id"], COMPLETED)
    refused = await door.call("SendMessage", {"message": {
        "messageId": "late", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"],
    }})  # fmt: skip
    assert refused["error"]["code"] == -32004


@pytest.mark.parametrize(
    ("change", "status", "outcome"),
    [
        pytest.param({"argumentsDigest": f"sha256:{'0' * 64}"}, 409, "changed", id="the digest of other arguments"),
        pytest.param({"task": "another"}, 404, "notFound", id="an unknown task"),
        pytest.param({"task": "of the other caller"}, 404, "notFound", id="another task that waits for an approval"),
        pytest.param({"arguments": {"amount": 31}}, 422, "invalid", id="edited arguments that nothing checks"),
    ],
)
async def test_decision_for_something_else_is_refused(
    open_door: Open, operator_of: Any, asking: Any, change: dict[str, Any], status: int, outcome: str
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    other = await door.say("charge", owner="client:other")
    approval = next(each for each in await operator.open() if each["task"] == task["id"])
    if change.get("task") == "of the other caller":
        change = {"task": other["id"]}
    answer = await operator.decide(approval, **change)
    assert (answer.status_code, answer.json()["outcome"]) == (status, outcome)
    for each, owner in ((task, "client:default"), (other, "client:other")):
        assert (await door.get(each["id"], owner=owner))["status"]["state"] == INPUT_REQUIRED
    assert len(await operator.open()) == 2


async def test_decision_for_an_earlier_approval_of_the_task_is_refused(
    open_door: Open, operator_of: Any, asking: Any
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (first,) = await operator.open()
    assert (await operator.decide(first, reason="more")).json() == {"outcome": "accepted"}
    async with within("the turn asks again"):
        while not (second := await operator.open()):  # noqa: ASYNC110 - it asks from outside
            await asyncio.sleep(0.01)
    assert second[0]["ask"] != first["ask"]
    late = await operator.decide(first, "Denied")
    assert (late.status_code, late.json()["decision"]) == (409, "Approved")
    assert (await door.get(task["id"]))["status"]["state"] == INPUT_REQUIRED
    assert (await operator.decide(second[0], "Denied")).status_code == 200


async def test_decision_for_an_ended_task_is_not_found(open_door: Open, operator_of: Any, asking: Any) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    await door.call("CancelTask", {"id": task["id"]})
    assert (await operator.decide(approval)).json() == {"outcome": "notFound"}


async def test_late_decision_does_not_count(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any, asking: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"expirySeconds": 60}))
    now = [1_795_608_000_000_000_000]
    door = await open_door(asking, clock=Clock(now_ns=lambda: now[0]), retry_seconds=3600)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    assert (approval["createdAt"], approval["expiresAt"]) == ("2026-11-25T12:00:00Z", "2026-11-25T12:01:00Z")
    now[0] += 61 * 1_000_000_000
    assert (await operator.decide(approval)).json() == {"outcome": "notFound"}
    assert (await door.get(task["id"]))["status"]["state"] == INPUT_REQUIRED
    assert len(door.turn.requests) == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        pytest.param({"decision": "Maybe"}, "decision", id="another decision"),
        pytest.param({"decidedBy": ""}, "decidedBy", id="nobody"),
        pytest.param({"decidedBy": "a\nb"}, "decidedBy", id="a name with a line break"),
        pytest.param({"reason": "x" * 1025}, "reason", id="a long reason"),
        pytest.param({"argumentsDigest": "sha256:1"}, "argumentsDigest", id="not a digest"),
        pytest.param({"arguments": [1]}, "arguments", id="arguments that are not an object"),
        pytest.param({"arguments": {"a": 2**60}}, "arguments", id="a number that messages cannot carry"),
        pytest.param({"arguments": {"a": "x" * 70_000}}, "arguments", id="large arguments"),
        pytest.param({"decision": "Denied", "arguments": {"amount": 1}}, "arguments", id="arguments of a denial"),
        pytest.param({"grant": "all"}, "grant", id="an unknown field"),
        *(
            pytest.param({key: {"amount": 31}}, f"{key}: there is no such field; changed arguments belong in arguments")
            for key in ("args", "edits", "Arguments", "edited_arguments")
        ),
    ],
)
async def test_invalid_decision_names_the_field(
    open_door: Open, operator_of: Any, asking: Any, change: dict[str, Any], problem: str
) -> None:
    door = await open_door(asking)
    operator = operator_of(door.url)
    await door.say("charge")
    (approval,) = await operator.open()
    refused = await operator.decide(approval, **change)
    assert refused.status_code == 400
    assert problem in refused.json()["error"]["message"]
    assert len(await operator.open()) == 1


@pytest.mark.parametrize("body", ["", "[]", "{", '{"task": "a", "task": "b"}'])
async def test_decision_that_is_no_object_is_refused(open_door: Open, operator_of: Any, body: str) -> None:
    door = await open_door()
    async with operator_of(door.url).http() as http:
        headers = {"Content-Type": "application/json"}
        assert (await http.post("/approvals/a/decision", content=body, headers=headers)).status_code == 400


async def test_person_with_a_special_name_cannot_look_like_another_caller(
    open_door: Open, operator_of: Any, asking: Any
) -> None:
    name = "alice via agent:team/lead"
    door = await open_door(asking)
    operator = operator_of(door.url)
    task = await door.say("charge")
    (approval,) = await operator.open()
    await operator.decide(approval, decidedBy=name)
    (stamp,) = stamps(await door.until(task["id"], COMPLETED))
    assert stamp["by"] == "user:alice%20via%20agent:team/lead"
    assert (await operator.decide(approval, "Denied")).json()["decidedBy"] == name


async def reviewed(request: TurnRequest) -> AsyncIterator[Frame]:
    if request.reply is None:
        payload = {"kind": "approval", "title": "Run?", "detail": "{}", "project": "team/echo"}
        kind = InterruptKind.QUESTION if request.text == "ask" else InterruptKind.APPROVAL
        yield InterruptRequest(kind, "Run?", payload, "1", "run", {})
        return
    yield Text("Done.")
    yield TurnDone("Done.")


@pytest.mark.parametrize(
    ("by", "owner", "refused"),
    [
        pytest.param("Reviewers", "client:default", True, id="a client where reviewers decide"),
        pytest.param("Reviewers", "agent:team/peer", True, id="an agent where reviewers decide"),
        pytest.param("Clients", "agent:team/peer", True, id="an agent where clients decide"),
        pytest.param("Clients", "client:default", False, id="a client where clients decide"),
        pytest.param("Callers", "agent:team/peer", False, id="an agent where callers decide"),
    ],
)
async def test_answer_to_an_approval_needs_the_right_caller(
    open_door: Open, mounted: Any, documents: Any, operator_of: Any, by: str, owner: str, refused: bool
) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"by": by}))
    door = await open_door(reviewed)
    task = await door.say("run", owner=owner)
    answer = await door.call(
        "SendMessage",
        {"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "yes"}], "taskId": task["id"]}},
        owner=owner,
    )
    if not refused:
        assert answer["result"]["task"]["status"]["state"] == COMPLETED
        return
    assert answer["error"]["code"] == -32004
    assert "may not approve or decline" in answer["error"]["message"]
    assert (await door.get(task["id"], owner=owner))["status"]["state"] == INPUT_REQUIRED
    (approval,) = await operator_of(door.url).open()
    assert approval["requestedBy"] == owner
    assert approval["chain"] == ([owner] if owner.startswith("agent:") else [])
    assert (await operator_of(door.url).decide(approval)).status_code == 200
    async with within("the task is completed"):
        while (await door.get(task["id"], owner=owner))["status"]["state"] != COMPLETED:  # noqa: ASYNC110 - as above
            await asyncio.sleep(0.01)


async def test_questions_are_answered_by_callers_where_reviewers_approve(
    open_door: Open, mounted: Any, documents: Any
) -> None:
    mounted.write(mounted.layout.config_file, documents(approvals={"by": "Reviewers"}))
    door = await open_door(reviewed)
    task = await door.say("ask")
    assert (await door.say("yes", taskId=task["id"]))["status"]["state"] == COMPLETED
