"""The list of the calls with which an agent asked other agents, for administrators, over HTTP."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import httpx
import pytest
from tests.support.agent.asking_turn import AskingTurn
from tests.support.agent.background_tasks import BEGUN, LATER, LostAnswer, await_booking
from tests.support.agent.reports import read_audit_lines
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import await_until, within

from fleetwright_agent.storage.open_questions import DelegatedTask, PeerCall, PeerCallStatus
from fleetwright_agent.storage.sqlite.storage import sqlite_storage

ADMIN = {"administrators": ["default"]}
GUEST = "client:other"
PATH = "/admin/delegations"
TEXT = "Ask the cook to boil them with the password: tomato-soup-99."
Desk = Callable[..., AbstractAsyncContextManager[Any]]


def caller_settings(mounted: Any, cook: Any) -> dict[str, Any]:
    """Return the settings of an agent with the peer `cook` and an administrator."""
    token = mounted.layout.peer_token_file("team", "cook")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("self")
    return {**ADMIN, "peers": [{"name": "cook", "namespace": "team", "url": cook.url}]}


@pytest.fixture
def desk(agent: Any, mounted: Any) -> Desk:
    """Return a function that starts an agent that may call the cook."""

    @asynccontextmanager
    async def start(cook: Any) -> AsyncIterator[Any]:
        async with agent(**caller_settings(mounted, cook)) as admin:
            yield admin

    return start


async def listed(admin: Any, **parameters: str) -> list[dict[str, Any]]:
    async with admin.http() as http:
        answer = await http.get(PATH, params=parameters)
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store"), answer.text
    found: list[dict[str, Any]] = answer.json()["delegations"]
    return found


async def until_ended(admin: Any) -> list[dict[str, Any]]:
    """Wait until all calls have ended: the end of a turn ends them in the background."""
    async with within("every delegation ends"):
        while not all(each["endedAt"] for each in await listed(admin)):  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)
    return await listed(admin)


async def test_delegation_shows_who_was_asked_and_the_answer(desk, peer, states):
    async with peer() as cook, desk(cook) as admin:
        task = await admin.by(GUEST).say(TEXT, contextId="c1")
        assert states(task) == "completed"
        (theirs,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
        (found,) = await listed(admin)
        assert found["beganAt"] <= found["endedAt"]
        assert {**found, "id": "", "beganAt": "", "endedAt": "", "request": "", "result": ""} == {
            "id": "", "owner": GUEST, "contextId": "c1", "taskId": task["id"], "peer": "team/cook",
            "peerTaskId": theirs["id"], "status": "Completed", "request": "", "result": "", "error": "",
            "beganAt": "", "endedAt": "",
        }  # fmt: skip
        assert ("boil" in found["request"], "tomato" in json.dumps(found), bool(found["result"])) == (True, False, True)
        assert await listed(admin, owner=GUEST, status="Completed") == [found]
        assert await listed(admin, owner="client:default") == await listed(admin, status="Failed") == []


async def test_unanswered_question_fails_at_the_end_of_the_task(desk, peer, states):
    async with peer(turn=AskingTurn()) as cook, desk(cook) as admin:
        waits = await admin.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
        (open_,) = await listed(admin)
        assert (open_["status"], open_["result"]) == ("Dispatched", "How many eggs do the guests eat?")
        assert states(await admin.say("no", taskId=waits["id"])) == "completed"
        (found,) = await until_ended(admin)
        assert (found["status"], found["result"]) == ("Failed", "")
        assert found["error"].endswith("without an answer to the question: How many eggs do the guests eat?")


async def test_answered_question_is_followed_by_a_call(desk, peer, states):
    async with peer(turn=AskingTurn()) as cook, desk(cook) as admin:
        assert states(await admin.say("The guests eat two eggs. Ask the cook to boil them.")) == "completed"
        answer, question = await listed(admin)
    assert (question["status"], answer["status"]) == ("Completed", "Completed")
    assert question["peerTaskId"] == answer["peerTaskId"]
    assert question["result"] == "How many eggs do the guests eat?"
    assert answer["result"].startswith("Boiled what was wanted")


async def test_delegation_to_a_missing_peer_has_failed(agent, mounted, states):
    class Nowhere:
        url = "http://127.0.0.1:9"

    async with agent(**caller_settings(mounted, Nowhere())) as admin:
        mounted.layout.peer_token_file("team", "cook").unlink()
        assert states(await admin.say("Ask the cook to boil them.")) == "completed"
        (found,) = await listed(admin)
    assert (found["status"], found["peerTaskId"], found["result"]) == ("Failed", None, "")
    assert "holds no credential for cook" in found["error"]


async def test_delegation_without_waiting_ends_with_its_result(agent, peer, team, model_server, house, states):
    model, _ = model_server
    async with peer() as cook:
        with team(cook) as settings:
            async with agent(**settings, **ADMIN) as admin:
                begun = await admin.say(LATER)
                await await_booking(house, cook, states)
                (open_,) = await listed(admin)
                await admin.say("My dog is called Rex.", contextId=begun["contextId"])
                (found,) = await listed(admin)
    assert BEGUN in model.asked[-1]
    assert (open_["status"], open_["taskId"], open_["endedAt"]) == ("Dispatched", begun["id"], None)
    assert {**found, "status": "", "result": "", "endedAt": None} == {**open_, "status": ""}
    assert (found["status"], "A table for 4 is booked." in found["result"]) == ("Completed", True)


async def test_killed_delegation_fails_after_the_restart(agent_process, peer, house, mounted, states):
    async with peer() as cook:
        settings = caller_settings(mounted, cook)
        async with agent_process(**settings) as admin:
            task = await admin.say("Ask the cook to cook a dish of 3 portions.", now=True)
            async with within("the delegation is dispatched"):
                while not house.ledger:  # noqa: ASYNC110 - it looks from outside
                    await asyncio.sleep(0.02)
                while [each["status"] for each in await listed(admin)] != ["Dispatched"]:  # noqa: ASYNC110 - the same
                    await asyncio.sleep(0.02)
            await admin.kill_during(task)
        house.kitchen.set()
        async with agent_process(**settings) as admin:
            assert states(await admin.rested(task)) == "failed"
            (found,) = await until_ended(admin)
    assert (found["status"], found["taskId"]) == ("Failed", task["id"])
    assert found["error"] == "the task of this agent ended before the result was known"


async def test_repeated_delegation_keeps_its_record(agent_process, peer, team, model_server, house, states):
    """The process is killed after the cook has begun the task, and before the caller knows it."""
    lost = LostAnswer()
    async with peer() as cook:
        with team(cook, lost) as settings:
            async with agent_process(**settings, **ADMIN) as admin:
                begun = await admin.say(LATER, now=True)
                assert await asyncio.to_thread(lost.given.wait, ceiling())
                (before,) = await listed(admin)
                await admin.kill()
            await await_booking(house, cook, states)
            async with agent_process(**settings, **ADMIN) as admin:
                assert states(await admin.rested(begun)) == "completed"
                (after,) = await listed(admin)
    assert (before["status"], before["peerTaskId"], after["status"]) == ("Pending", None, "Dispatched")
    assert after["peerTaskId"]
    assert {**before, "status": "", "peerTaskId": ""} == {**after, "status": "", "peerTaskId": ""}


async def test_start_ends_calls_of_a_killed_process(agent, mounted):
    """An agent that has no peers any more ends the calls, except the one whose result a later turn will receive."""
    storage = sqlite_storage(mounted.layout.memory)
    for name in ("left", "delegated"):
        place = ("client:a", "c", "gone", "team/cook", "boil", time.time())
        await storage.peer_calls.begin(PeerCall(name, *place, peer_task_id=name))
    await storage.delegated.put(DelegatedTask("client:a", "c", "team/cook", "delegated"))
    await storage.file.aclose()
    async with agent(**ADMIN) as admin:
        async with within("a delegation fails"):
            while not (found := await listed(admin, status="Failed")):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.02)
        assert [each["id"] for each in found] == ["left"]
        assert [each["id"] for each in await listed(admin, status="Pending")] == ["delegated"]


async def test_agent_wakes_to_delete_the_records_of_calls(agent, mounted):
    storage = sqlite_storage(mounted.layout.memory)
    now = time.time()
    done = {"status": PeerCallStatus.COMPLETED, "ended_at": now}
    await storage.peer_calls.begin(PeerCall("1", "client:a", "c", "t", "team/cook", "boil", now, **done))
    await storage.file.aclose()
    async with agent() as guest, httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:

        async def has_next_wake() -> bool:
            return (await http.get("/status")).json()["activity"]["nextWakeAt"] is not None

        await await_until(has_next_wake, "the agent plans its next wake")


async def test_list_of_delegations_is_in_the_audit_trail(desk, peer, mounted):
    async with peer() as cook, desk(cook) as admin:
        await listed(admin, owner="user:Ada Lovelace")
    (line,) = [line for line in read_audit_lines(mounted) if line["event"] == "delegations_listed"]
    assert (line["listed_owner"], line["by"]) == ("user:Ada%20Lovelace", "client:default")


async def test_delegations_are_exported_and_erased(desk, peer):
    async with peer() as cook, desk(cook) as admin:
        for owner, context in ((GUEST, "c1"), (GUEST, "c2"), ("client:default", "c1")):
            await admin.by(owner).say(TEXT, contextId=context)
        async with admin.http() as http:

            async def memory(method: str, **place: str) -> str:
                return (await http.request(method, "/admin/memory", params=place, timeout=ceiling())).text

            lines = [json.loads(line) for line in (await memory("GET", owner=GUEST)).splitlines()]
            exported = [line for line in lines if line.pop("kind") == "delegation"]
            assert exported == await listed(admin, owner=GUEST)
            assert [each["contextId"] for each in exported] == ["c2", "c1"]
            receipt = json.loads(await memory("DELETE", owner=GUEST, contextId="c1"))
            assert receipt["erased"]["delegations"] == 1
            assert await listed(admin, owner=GUEST) == exported[:1]
            assert json.loads(await memory("DELETE", owner=GUEST))["erased"]["delegations"] == 1
        assert [each["owner"] for each in await listed(admin)] == ["client:default"]


@pytest.mark.parametrize(
    ("who", "parameters", "status", "says"),
    [
        pytest.param(GUEST, {}, 403, "auth.administrators", id="no administrator"),
        pytest.param(GUEST, {"owner": GUEST}, 403, "auth.administrators", id="the owner"),
        pytest.param("agent:team/peer", {}, 403, "auth.administrators", id="an agent"),
        pytest.param("client:default", {"owner": "other"}, 400, "owner must be", id="malformed owner"),
        pytest.param("client:default", {"status": "Lost"}, 400, "status must be one of Pending", id="unknown status"),
        pytest.param("client:default", {"limit": "9"}, 400, "There is no parameter", id="unknown parameter"),
    ],
)
async def test_delegations_refuse_other_requests(agent, who, parameters, status, says):
    async with agent(**ADMIN) as admin, admin.by(who).http() as http:
        answer = await http.get(PATH, params=parameters)
        assert (answer.status_code, says in answer.text) == (status, True), answer.text
