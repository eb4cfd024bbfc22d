"""Typed results: a caller that names a skill gets data in the skill's schema, or only the text."""

import pytest
from tests.support.agent.reports import COST

BOOKING = {
    "type": "object",
    "properties": {"guests": {"type": "integer"}},
    "required": ["guests"],
    "additionalProperties": False,
}
UNREADABLE = {
    "properties": {"guests": {"type": "integer"}, "paid": {"type": "boolean"}},
    "required": ["guests", "paid"],
}
IMPOSSIBLE = {"properties": {"paid": {"type": "boolean", "enum": [True]}}, "required": ["paid"]}


def skill(schema):
    return {"results": [{"skill": "booking", "outputSchema": schema, "mediaType": "application/vnd.booking+json"}]}


def data(task):
    return [part for part in task["artifacts"][0]["parts"] if "data" in part]


HINT = {"skillHint": "booking"}


@pytest.mark.parametrize(
    ("schema", "found", "calls"),
    [
        pytest.param(BOOKING, {"guests": 4}, 3, id="data that fits is told"),
        pytest.param(UNREADABLE, {"guests": 4, "paid": False}, 4, id="data that does not fit is mended once"),
        pytest.param(IMPOSSIBLE, None, 4, id="after one repair the text stands alone"),
    ],
)
async def test_typed_result_is_data_in_the_schema_of_the_skill(agent, states, schema, found, calls):
    async with agent(**skill(schema)) as guest:
        before = await guest.metric('llm_calls_total{model="offline",outcome="ok"}')
        task = await guest.say("Book table for 4", metadata=HINT)
        assert await guest.metric('llm_calls_total{model="offline",outcome="ok"}') - before == calls
    assert states(task) == "completed"
    assert task["artifacts"][0]["parts"][0]["text"] == "Here is what I found. A table for 4 is booked."
    wanted = [] if found is None else [found]
    assert [part["data"] for part in data(task)] == wanted
    for part in data(task):
        assert part["mediaType"] == part["metadata"]["mimeType"] == "application/vnd.booking+json"


@pytest.mark.parametrize(
    "metadata",
    [
        pytest.param({}, id="without a name"),
        pytest.param({"skillHint": "other"}, id="with the name of a skill that has no shape"),
        pytest.param({"skillHint": 7}, id="with what is no name"),
    ],
)
async def test_typed_result_is_absent_without_a_typed_skill(agent, metadata):
    async with agent(**skill(BOOKING)) as guest:
        assert not data(await guest.say("Book table for 4", metadata=metadata))


async def test_typed_result_call_is_charged_and_not_in_the_history(agent):
    async with agent(**skill(BOOKING)) as guest:
        plain = await guest.say("Book table for 4")
        # Separate callers share no memory.
        other = guest.by("client:other")
        typed = await other.say("Book table for 4", metadata=HINT)
        after = await other.say("My dog is called Rex.", contextId=typed["contextId"])
        again = await guest.say("My dog is called Rex.", contextId=plain["contextId"])

    def tokens(task):
        return task["artifacts"][0]["metadata"][COST]["usage"]["input_tokens"]

    assert tokens(typed) > tokens(plain)
    assert abs(tokens(after) - tokens(again)) < 10


async def test_typed_result_skill_is_kept_across_an_approval(agent, states):
    async with agent(**skill(BOOKING), approvals={"tools": ["house__book_table"]}) as guest:
        task = await guest.say("Book table for 4", metadata=HINT)
        assert states(task) == "input-required"
        done = await guest.say("yes", taskId=task["id"])
    assert [part["data"] for part in data(done)] == [{"guests": 4}]


async def test_skill_hint_of_the_request_overrides_the_message(agent, message):
    async with agent(**skill(BOOKING)) as guest:
        params = message("Book table for 4", metadata={"skillHint": "other"}) | {"metadata": HINT}
        task = (await guest.call("SendMessage", params))["result"]["task"]
    assert [part["data"] for part in data(task)] == [{"guests": 4}]
