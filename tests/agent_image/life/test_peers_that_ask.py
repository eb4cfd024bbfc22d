"""Two agents, one of which asks the other a question: the model answers it, abandons it or passes it to a person."""

import asyncio
import json
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from tests.support.agent.asking_turn import AskingTurn
from tests.support.agent.operator_client import TOKEN, Operator, operator_document
from tests.support.agent.reports import read_answer
from tests.support.waiting import within

from fleetwright_agent.config.layout import Layout
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.open_questions import SqliteOpenQuestions


@pytest.fixture
def desk(agent, mounted):
    """Return the agent that people talk to, with a peer."""
    return _desk(agent, mounted)


@pytest.fixture
def desk_process(agent_process, mounted):
    """Return the same agent as a child process."""
    return _desk(agent_process, mounted)


def _desk(agent, mounted):
    @asynccontextmanager
    async def start(cook, **changes):
        token = mounted.layout.peer_token_file("team", "cook")
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_text("self")
        async with agent(peers=[{"name": "cook", "namespace": "team", "url": cook.url}], **changes) as guest:
            yield guest

    return start


async def listed(cook):
    return (await cook.call("ListTasks", {}))["result"]["tasks"]


async def test_peer_question_is_answered_by_the_model(desk, peer, states):
    turn = AskingTurn()
    async with peer(turn=turn) as cook, desk(cook) as guest:
        task = await guest.say("The guests eat two eggs. Ask the cook to boil them.")
        assert states(task) == "completed"
        assert "Boiled what was wanted: The guests eat two eggs." in read_answer(task)
        (only,) = await listed(cook)
    assert states(only) == "completed"
    asked, answered = turn.requests
    assert (asked.task_id, asked.context_id) == (answered.task_id, answered.context_id)
    assert answered.owner == "agent:team/echo"


async def test_peer_question_unanswered_at_turn_end_is_cancelled(desk, peer, states):
    async with peer(turn=AskingTurn()) as cook, desk(cook) as guest:
        task = await guest.say("Ask the cook to boil them.")
        assert states(task) == "completed"
        assert "How many eggs do the guests eat?" in read_answer(task)
        (only,) = await listed(cook)
        assert states(await ended(cook, only)) == "canceled"


async def ended(cook, task):
    """The agent abandons the question in the background, and the answer does not wait for it."""
    async for _ in cook.events("SubscribeToTask", {"id": task["id"]}):
        pass
    return await cook.get(task)


async def test_peer_question_stays_open_while_a_person_is_asked(desk, peer, states):
    async with peer(turn=AskingTurn()) as cook, desk(cook) as guest:
        task = await guest.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
        assert states(task) == "input-required"
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        assert states(await guest.say("no", taskId=task["id"])) == "completed"
        assert states(await ended(cook, only)) == "canceled"


async def test_peer_approval_is_passed_on_to_a_person(desk, peer, house, states):
    approvals = {"tools": ["house__charge_card"], "by": "Callers"}
    async with peer(approvals=approvals) as cook, desk(cook) as guest:
        task = await guest.say("The guests say yes. Ask the cook to charge the card 30.")
        assert states(task) == "completed"
        assert "approval of a person, which no agent gives" in read_answer(task)
        assert "house__charge_card" in read_answer(task)
        (only,) = await listed(cook)
    assert states(only) == "canceled"
    assert house.ledger == []


ENDS = pytest.mark.parametrize("end", ["kill", "leave"], ids=["killed", "told to leave"])


@ENDS
async def test_peer_question_survives_a_restart_until_the_turn_ends(desk_process, peer, states, end):
    async with peer(turn=AskingTurn()) as cook:
        async with desk_process(cook) as guest:
            task = await guest.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
            assert states(task) == "input-required"
            await getattr(guest, end)()
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        async with desk_process(cook) as guest:
            assert states(await guest.say("no", taskId=task["id"])) == "completed"
            assert states(await ended(cook, only)) == "canceled"


@ENDS
async def test_peer_question_is_answered_after_a_restart(desk_process, peer, states, end):
    guarded = {"approvals": {"tools": ["ask_cook"]}}
    turn = AskingTurn()
    async with peer(turn=turn) as cook:
        async with desk_process(cook, **guarded) as guest:
            task = await guest.say("The guests eat two eggs. Ask the cook to boil them.")
            task = await guest.say("yes", taskId=task["id"])
            assert states(task) == "input-required", "its answer to the cook needs approval too"
            await getattr(guest, end)()
        async with desk_process(cook, **guarded) as guest:
            done = await guest.say("yes", taskId=task["id"])
        assert states(done) == "completed"
        assert "Boiled what was wanted: The guests eat two eggs." in read_answer(done)
        assert len(turn.requests) == 2


async def test_peer_question_of_a_drained_turn_stays_open(desk_process, peer, states):
    """A question of a turn that resumes after a restart stays open until that turn is over."""
    async with peer(turn=AskingTurn()) as cook:
        async with desk_process(cook) as guest:
            task = await guest.say("Ask the cook to boil them. [[pause:0.5]]", now=True)
            await asked_by(cook)
            await guest.leave()
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        async with desk_process(cook) as guest:
            await speaking(guest, task)
            await guest.call("CancelTask", {"id": task["id"]})
            assert states(await ended(cook, only)) == "canceled"


async def test_peer_question_of_a_cancelled_task_is_closed_at_once(desk, peer, states):
    async with peer(turn=AskingTurn()) as cook, desk(cook) as guest:
        task = await guest.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        await guest.call("CancelTask", {"id": task["id"]})
        assert states(await ended(cook, only)) == "canceled"


async def test_peer_question_of_an_ended_task_is_closed_at_start(desk_process, peer, states, mounted):
    """A process was killed between the end of a task and the end of its questions, and the log has deleted the task."""
    async with peer(turn=AskingTurn()) as cook:
        async with desk_process(cook) as guest:
            task = await guest.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
            await guest.kill()
        database = Database(mounted.layout.memory / schema.FILE, schema.SCHEMA)
        questions = SqliteOpenQuestions(database)
        (question,) = await questions.of("client:default", task["id"])
        await questions.put(replace(question, asked_in="ended"))
        await database.aclose()
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        async with desk_process(cook):
            assert states(await ended(cook, only)) == "canceled"


async def speaking(guest, task):
    """Wait until the turn produces output."""
    async for event in guest.events("SubscribeToTask", {"id": task["id"]}):
        if "artifactUpdate" in event:
            return


async def asked_by(cook):
    """Wait until the cook has asked."""
    async with within("the cook asks"):
        while [task["status"]["state"] for task in await listed(cook)] != ["TASK_STATE_INPUT_REQUIRED"]:  # noqa: ASYNC110 - it looks from outside
            await asyncio.sleep(0.02)


async def test_peer_approval_by_reviewers_lets_the_call_continue(desk, peer, house, states, tmp_path):
    """The calling agent waits, and gets the result of the call that a reviewer has approved at the peer."""
    approvals = {"tools": ["house__charge_card"], "by": "Reviewers"}
    operator_file = Layout(root=tmp_path / "cook").operator_file
    operator_file.parent.mkdir(parents=True)
    operator_file.write_text(json.dumps(operator_document(TOKEN)))
    async with peer(approvals=approvals) as cook, desk(cook) as guest:
        task = await guest.say("Ask the cook to charge the card 30.", now=True)
        operator = Operator(cook.url)
        async with within("the approval is listed"):
            while not (found := await operator.open()):  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.05)
        (approval,) = found
        assert (approval["requestedBy"], approval["chain"]) == ("agent:team/echo", ["agent:team/echo"])
        await operator.decide(approval)
        done = await guest.rested(task)
    assert states(done) == "completed"
    assert "The card is charged 30." in read_answer(done)
    assert house.ledger == ["charged 30"]
