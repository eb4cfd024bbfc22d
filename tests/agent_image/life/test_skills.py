"""Skills over A2A: the agent lists mounted skills, reads their files, and restricts the turn to their allowed tools."""

import pytest
from tests.support.agent.reports import read_answer

DINING = """---
name: dining
description: How guests of the house are served
allowed-tools: house/book_table
---
Book a table first. The menu is in references/menu.md.
"""


@pytest.fixture
def dining(mounted):
    folder = mounted.layout.skill("dining")
    (folder / "references").mkdir(parents=True)
    (folder / "SKILL.md").write_text(DINING)
    (folder / "references/menu.md").write_text("Soup of the day: pumpkin.")
    return {"skills": [{"name": "dining", "description": "How guests of the house are served", "digest": "d"}]}


async def test_skill_is_listed_in_the_prompt_and_read_on_demand(agent, model, dining):
    recorder, document = model
    async with agent(model=document, **dining) as guest:
        told = read_answer(await guest.say('Load skill dining, then read skill file "references/menu.md" of dining'))
    system = recorder.asked[0]["messages"][0]["content"]
    assert "- dining: How guests of the house are served" in system
    assert "Book a table first" not in system, "the model reads the skill on demand"
    assert "Book a table first" in told
    assert "references/menu.md" in told
    assert "pumpkin" in told


async def test_skill_blocks_tools_that_it_does_not_allow(agent, dining, house):
    async with agent(**dining) as guest:
        told = read_answer(await guest.say("Load skill dining, then charge card 30, then book table for 2"))
        assert "house__charge_card is not allowed while the skill dining is followed" in told
        assert house.ledger == ["table for 2"]
        assert await guest.metric('tool_calls_total{outcome="blocked",tool="house__charge_card"}') == 1
        await guest.say("Charge card 40")
    assert house.ledger == ["table for 2", "charged 40"], "the next message is a new task"


async def test_skill_tool_restriction_survives_a_kill(agent_process, dining, house, states):
    async with agent_process(**dining) as guest:
        task = await guest.say("Load skill dining, then ask the human about soup, then charge card 30")
        assert states(task) == "input-required"
        await guest.kill()
    async with agent_process(**dining) as guest:
        done = await guest.say("pumpkin", taskId=task["id"])
        assert states(done) == "completed"
        assert "not allowed while the skill dining is followed" in read_answer(done)
    assert house.ledger == []


async def test_skill_tool_restriction_holds_if_the_skill_is_unreadable(agent, dining, house, mounted, states):
    async with agent(**dining) as guest:
        told = read_answer(await guest.say('Read skill file "SKILL.md" of dining'))
        assert "use load_skill" in told
        assert "Book a table first" not in told
        task = await guest.say("Load skill dining, then ask the human about soup, then charge card 30")
        assert states(task) == "input-required"
        (mounted.layout.skill("dining") / "SKILL.md").unlink()
        done = await guest.say("pumpkin", taskId=task["id"])
        assert "not allowed while the skill dining is followed; it allows no tool" in read_answer(done)
    assert house.ledger == []
