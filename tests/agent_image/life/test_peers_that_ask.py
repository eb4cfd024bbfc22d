"""Two agents, of which one asks the other before it goes on: answered by a model, given up, or a matter for people."""

from contextlib import asynccontextmanager

import pytest

from fleetwright_agent.turn.frames import Ask, AskKind, Done


class Cook:
    """Asks how many there are, and says what it was told."""

    def __init__(self):
        self.requests = []

    async def run(self, request):
        self.requests.append(request)
        if request.reply is None:
            question = "How many eggs do the guests eat?"
            yield Ask(AskKind.QUESTION, question, {"question": question}, identity="eggs", tool="ask_human")
        else:
            yield Done(f"Boiled what was wanted: {request.reply.value}")

    async def aclose(self):
        return None


@pytest.fixture
def desk(agent, mounted):
    """The agent that people talk to, with a peer."""

    @asynccontextmanager
    async def start(cook):
        token = mounted.layout.peer_token_file("team", "cook")
        token.parent.mkdir(parents=True, exist_ok=True)
        token.write_text("self")
        async with agent(peers=[{"name": "cook", "namespace": "team", "url": cook.url}]) as guest:
            yield guest

    return start


def text_of(task):
    return task["artifacts"][0]["parts"][0]["text"]


async def listed(cook):
    return (await cook.call("ListTasks", {}))["result"]["tasks"]


async def test_the_model_answers_its_peer_and_the_peers_task_goes_on(desk, peer, states):
    turn = Cook()
    async with peer(turn=turn) as cook, desk(cook) as guest:
        task = await guest.say("The guests eat two eggs. Ask the cook to boil them.")
        assert states(task) == "completed"
        assert "Boiled what was wanted: The guests eat two eggs." in text_of(task)
        (only,) = await listed(cook)
    assert states(only) == "completed"
    asked, answered = turn.requests
    assert (asked.task_id, asked.context_id) == (answered.task_id, answered.context_id)
    assert answered.owner == "agent:team/echo"


async def test_what_nobody_answers_is_given_up_at_the_end_of_the_turn(desk, peer, states):
    async with peer(turn=Cook()) as cook, desk(cook) as guest:
        task = await guest.say("Ask the cook to boil them.")
        assert states(task) == "completed"
        assert "How many eggs do the guests eat?" in text_of(task)
        (only,) = await listed(cook)
        assert states(await ended(cook, only)) == "canceled"


async def ended(cook, task):
    """It is given up beside the turn, whose answer does not wait for it."""
    async for _ in cook.events("SubscribeToTask", {"id": task["id"]}):
        pass
    return await cook.get(task)


async def test_a_question_waits_for_as_long_as_a_person_is_asked_in_the_same_turn(desk, peer, states):
    async with peer(turn=Cook()) as cook, desk(cook) as guest:
        task = await guest.say('Ask the cook to boil them. Then ask the human the question "Anything else?"')
        assert states(task) == "input-required"
        (only,) = await listed(cook)
        assert states(only) == "input-required"
        assert states(await guest.say("no", taskId=task["id"])) == "completed"
        assert states(await ended(cook, only)) == "canceled"


async def test_what_a_person_must_allow_is_passed_on_and_not_allowed_by_the_agent(desk, peer, house, states):
    approvals = {"tools": ["house__charge_card"], "by": "Callers"}
    async with peer(approvals=approvals) as cook, desk(cook) as guest:
        task = await guest.say("The guests say yes. Ask the cook to charge the card 30.")
        assert states(task) == "completed"
        assert "approval of a person, which no agent gives" in text_of(task)
        assert "house__charge_card" in text_of(task)
        (only,) = await listed(cook)
    assert states(only) == "canceled"
    assert house.ledger == []
