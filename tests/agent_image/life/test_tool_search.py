"""An agent whose model sees only some of its tools, over A2A."""

import pytest

SEARCH = {"above": 2}


def answer(task):
    return "".join(part.get("text", "") for artifact in task["artifacts"] for part in artifact["parts"])


async def test_a_tool_that_is_not_shown_is_found_by_its_words_and_called_in_the_same_turn(agent, house):
    async with agent(toolSearch=SEARCH) as guest:
        told = answer(await guest.say("Search tools for tables, then book table for 4"))
        assert "house__book_table: Book a table in the restaurant." in told
        assert "A table for 4 is booked." in told
        # Three model calls: the first has none of the four tools, and the others have the one that it found.
        assert await guest.metric("tool_schemas_withheld_total") == 4 + 3 + 3
    assert house.ledger == ["table for 4"]


async def test_what_was_not_looked_for_is_not_shown(agent, house):
    async with agent(toolSearch=SEARCH) as guest:
        assert "I read your message:" in answer(await guest.say("Book table for 4"))
    assert house.ledger == []


async def test_what_was_found_stays_found_in_the_conversation_over_a_kill(agent_process, states, house):
    async with agent_process(toolSearch=SEARCH) as guest:
        first = await guest.say("Search tools for tables")
        await guest.kill()
    async with agent_process(toolSearch=SEARCH) as guest:
        assert "A table for 4" in answer(await guest.say("Book table for 4", contextId=first["contextId"]))
        assert "I read" in answer(await guest.say("Book table for 5")), "another conversation has no found tools"
    assert house.ledger == ["table for 4"]


@pytest.mark.parametrize(
    "search",
    [
        pytest.param({"above": 4}, id="there are no more tools than may be shown"),
        pytest.param({"above": 2, "always": ["house__book_table"]}, id="it is always shown"),
        pytest.param(None, id="nothing is said of a search"),
    ],
)
async def test_a_tool_is_shown_without_a_search_where(agent, house, search):
    async with agent(toolSearch=search) as guest:
        assert "A table for 4 is booked." in answer(await guest.say("Book table for 4"))
    assert house.ledger == ["table for 4"]


async def test_where_all_tools_are_shown_there_is_nothing_to_search_with(agent):
    async with agent(toolSearch={"above": 4}) as guest:
        assert "I read your message:" in answer(await guest.say("Search tools for parking"))


async def test_words_that_no_tool_has_are_told_so(agent):
    async with agent(toolSearch=SEARCH) as guest:
        assert "No tool has these words" in answer(await guest.say('Search tools for "parking"'))


async def test_a_sub_agent_is_shown_what_its_list_names(agent, house):
    waiter = {"name": "waiter", "description": "Serves.", "instructions": "Serve.", "tools": ["house__book_table"]}
    async with agent(toolSearch=SEARCH, subAgents=[waiter]) as guest:
        told = answer(await guest.say('Give a task to the sub-agent waiter: "Book table for 4"'))
    assert "A table for 4 is booked." in told
    assert house.ledger == ["table for 4"]
