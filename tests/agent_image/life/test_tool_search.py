"""An agent whose model sees only some of its tools, over A2A."""

import pytest
from tests.support.agent.reports import read_answer

SEARCH = {"above": 2}


async def test_tool_search_finds_a_hidden_tool_for_the_same_turn(agent, house):
    async with agent(toolSearch=SEARCH) as guest:
        told = read_answer(await guest.say("Search tools for tables, then book table for 4"))
        assert "house__book_table: Book a table in the restaurant." in told
        assert "A table for 4 is booked." in told
        # Three model calls: the first has none of the four tools, and the others have the one that it found.
        assert await guest.metric("tool_schemas_withheld_total") == 4 + 3 + 3
    assert house.ledger == ["table for 4"]


async def test_tool_search_hides_tools_that_were_not_searched_for(agent, house):
    async with agent(toolSearch=SEARCH) as guest:
        assert "I read your message:" in read_answer(await guest.say("Book table for 4"))
    assert house.ledger == []


async def test_tool_search_results_survive_a_kill_in_a_conversation(agent_process, states, house):
    async with agent_process(toolSearch=SEARCH) as guest:
        first = await guest.say("Search tools for tables")
        await guest.kill()
    async with agent_process(toolSearch=SEARCH) as guest:
        assert "A table for 4" in read_answer(await guest.say("Book table for 4", contextId=first["contextId"]))
        assert "I read" in read_answer(await guest.say("Book table for 5")), "another conversation has no found tools"
    assert house.ledger == ["table for 4"]


@pytest.mark.parametrize(
    "search",
    [
        pytest.param({"above": 4}, id="there are no more tools than may be shown"),
        pytest.param({"above": 2, "always": ["house__book_table"]}, id="it is always shown"),
        pytest.param(None, id="nothing is said of a search"),
    ],
)
async def test_tool_search_shows_a_tool_without_a_search(agent, house, search):
    async with agent(toolSearch=search) as guest:
        assert "A table for 4 is booked." in read_answer(await guest.say("Book table for 4"))
    assert house.ledger == ["table for 4"]


async def test_tool_search_is_absent_if_all_tools_are_shown(agent):
    async with agent(toolSearch={"above": 4}) as guest:
        assert "I read your message:" in read_answer(await guest.say("Search tools for parking"))


async def test_tool_search_without_a_match_reports_it(agent):
    async with agent(toolSearch=SEARCH) as guest:
        assert "No tool has these words" in read_answer(await guest.say('Search tools for "parking"'))


async def test_tool_search_does_not_hide_the_tools_of_a_sub_agent(agent, house):
    waiter = {"name": "waiter", "description": "Serves.", "instructions": "Serve.", "tools": ["house__book_table"]}
    async with agent(toolSearch=SEARCH, subAgents=[waiter]) as guest:
        told = read_answer(await guest.say('Give a task to the sub-agent waiter: "Book table for 4"'))
    assert "A table for 4 is booked." in told
    assert house.ledger == ["table for 4"]
