"""What a request says of itself beside its words: where it comes from and why, and that it is to be forgotten."""

import json

import pytest

CAT = "My cat is called Tom."


def remembered(mounted):
    return "".join(path.read_text() for path in (mounted.layout.memory / "sessions").glob("*/*.json"))


def answer(task):
    return "".join(part["text"] for artifact in task["artifacts"] for part in artifact["parts"])


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({"incognito": True}, id="that is incognito"),
        pytest.param({"trigger": "background"}, id="that no person has triggered"),
    ],
)
async def test_a_request_is_told_of_no_session_and_leaves_none(agent, message, mounted, metadata):
    async with agent() as guest:
        await guest.say(CAT)
        assert "Tom" in answer(await guest.say("What is my cat called?")), "other sessions are told of it"
        before = remembered(mounted)
        asked = await guest.call("SendMessage", message("What is my cat called?") | {"metadata": metadata})
        assert "Tom" not in answer(asked["result"]["task"])
        await guest.say("My dog is called Rex.", metadata=metadata)
        assert remembered(mounted) == before
        assert "Rex" not in answer(await guest.say("What is my dog called?"))


async def test_what_was_begun_incognito_stays_so_whatever_its_answers_say(agent, mounted):
    async with agent() as guest:
        task = await guest.say("Ask the human about dessert", metadata={"incognito": True})
        done = await guest.say("Cake", taskId=task["id"], metadata={"incognito": False})
        assert "Cake" in answer(done)
    assert remembered(mounted) == ""


async def test_the_trail_and_the_log_say_where_a_request_comes_from_and_why(agent, message, mounted, caplog):
    caplog.set_level("INFO", logger="fleetwright_agent")
    said = message("Book table for 4", metadata={"origin": "shop", "trigger": "cron"})
    async with agent() as guest:
        await guest.call("SendMessage", said | {"metadata": {"origin": "night shift"}})
    (line,) = map(json.loads, (mounted.layout.memory / "audit/audit.jsonl").read_text().splitlines())
    assert (line["origin"], line["trigger"]) == ("night shift", "cron")
    (rests,) = (record for record in caplog.records if record.message == "task rests")
    assert (rests.origin, rests.trigger) == ("night shift", "cron")


async def test_a_peer_is_told_where_the_request_comes_from_and_not_what_else_it_says(agent, peer, mounted):
    token = mounted.layout.peer_token_file("team", "cook")
    token.parent.mkdir(parents=True, exist_ok=True)
    token.write_text("self")
    async with peer() as cook, agent(peers=[{"name": "cook", "namespace": "team", "url": cook.url}]) as guest:
        about = {"origin": "shop", "trigger": "cron", "priority": "now", "model": "other"}
        await guest.say("Ask the cook to boil eggs.", metadata=about)
        (task,) = (await cook.call("ListTasks", {}))["result"]["tasks"]
        (asked,) = (await cook.get(task))["history"]
    assert {key: asked["metadata"].get(key) for key in about} == about | {"priority": None, "model": None}


@pytest.mark.parametrize(
    ("metadata", "field"),
    [
        pytest.param({"origin": 7}, "metadata.origin", id="an origin that is no text"),
        pytest.param({"origin": "x" * 65}, "metadata.origin", id="a long one"),
        pytest.param({"trigger": "cron\nlevel=error"}, "metadata.trigger", id="a trigger of two lines"),
        pytest.param({"incognito": "yes"}, "metadata.incognito", id="a word for whether it is to be forgotten"),
    ],
)
async def test_what_is_no_word_of_that_kind_is_refused_with_its_name(agent, message, metadata, field):
    async with agent() as guest:
        error = (await guest.call("SendMessage", message("Hello there", metadata=metadata)))["error"]
        assert (await guest.call("ListTasks", {}))["result"]["tasks"] == []
    assert error["code"] == -32602
    assert field in error["message"]
