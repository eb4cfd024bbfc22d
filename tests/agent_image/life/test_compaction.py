"""Compaction of conversations, over A2A: across kills, during approvals, and in cost accounting."""

import asyncio
import json
import sqlite3

import httpx
import pytest
from tests.support.agent.reports import COST, read_answer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import within

EARLY = {"trigger": {"tokens": 2500}, "keep": {"messages": 4}}
RULE = "Always answer in formal language."


async def status_of(guest):
    async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
        return (await http.get("/status")).json()


async def story(guest, context, number):
    return await guest.say(f"Tell me a story, number {number}. [[long:250]]", contextId=context)


class ReportedUsage:
    """The sum of the usage that tasks report."""

    def __init__(self):
        self.tokens = 0
        self.cost = 0.0

    def add(self, task):
        told = task["artifacts"][0]["metadata"][COST]
        self.tokens += told["usage"]["input_tokens"] + told["usage"]["output_tokens"]
        self.cost += told["costUsd"]
        return task

    async def agree_with(self, guest):
        assert await guest.metric("llm_tokens_total") == self.tokens
        assert await guest.metric("llm_cost_usd_total") == pytest.approx(self.cost)


@pytest.fixture
def stored(mounted):
    """Return a function that queries the agent's conversation database."""

    def look(query):
        with sqlite3.connect(mounted.layout.memory / "conversations.db") as db:
            return db.execute(query).fetchall()

    return look


async def test_compaction_survives_a_kill_and_costs_agree(agent_process, stored):
    async with agent_process(compaction=EARLY) as guest:
        reported = ReportedUsage()
        task = reported.add(await guest.say(f"My customer number is C-7741. {RULE}"))
        context = task["contextId"]
        for number in range(6):
            reported.add(await story(guest, context, number))
        assert await guest.metric('compactions_total{method="summary",outcome="ok"') >= 1
        last = (await status_of(guest))["lastCompaction"]
        assert (last["outcome"], last["trigger"], last["method"]) == ("ok", "tokens", "summary")
        assert last["tokensAfter"] < last["tokensBefore"]
        await reported.agree_with(guest)
        await guest.kill()
    (before,) = stored("SELECT body FROM views")
    async with agent_process(compaction=EARLY) as guest:
        summarised = await guest.metric('compactions_total{method="summary",outcome="ok"')
        assert summarised >= 1
        for number in range(6, 13):
            reported.add(await story(guest, context, number))
        assert await guest.metric('compactions_total{method="summary",outcome="ok"') > summarised
        answer = reported.add(await guest.say("What is my customer number?", contextId=context))
        assert "C-7741" in read_answer(answer)
        await reported.agree_with(guest)
        assert await guest.metric("compaction_pins_missing_total") == 0
    (after,) = stored("SELECT body FROM views")
    earlier, view = (json.loads(row[0])["view"] for row in (before, after))
    assert earlier["cut"] != view["cut"]
    assert RULE in earlier["pinned"]
    assert earlier["pinned"] == view["pinned"]
    assert "C-7741" in view["summary"]
    # Compaction changes only the prompt; all messages are still stored.
    assert stored("SELECT count(*) FROM messages") == [(2 * 15,)]


async def test_compaction_killed_mid_summary_keeps_the_old_view(agent_process, states, stored):
    slow = {**EARLY, "summary": {"instructions": "[[pause:1.0]]"}}
    async with agent_process(compaction=slow) as guest:
        task = await guest.say("My customer number is C-7741.")
        context, number = task["contextId"], 0
        while not stored("SELECT * FROM views"):
            number += 1
            asked = await guest.say(f"Tell me a story, number {number}. [[long:250]]", contextId=context, now=True)
            if await _compacting(guest, asked):
                await guest.kill()
                break
    assert stored("SELECT * FROM views") == []
    async with agent_process(compaction=EARLY) as guest:
        assert states(await guest.rested(asked)) == "completed"
        assert await guest.metric('compactions_total{method="summary",outcome="ok"') == 1
        assert "C-7741" in read_answer(await guest.say("What is my customer number?", contextId=context))


async def _compacting(guest, task):
    """Return True as soon as the task reports a compaction, or False if it ends without one."""
    async with within("the task reports a compaction"):
        while (found := await guest.get(task))["status"]["state"] in {"TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"}:
            parts = found["status"].get("message", {}).get("parts", [])
            if any(part["text"].startswith("Compacting") for part in parts):
                return True
            await asyncio.sleep(0.02)
    return False


async def test_compaction_leaves_interrupted_tasks_untouched(agent, states, house):
    """Compaction does not change tasks of the conversation that wait for an approval or an answer."""
    async with agent(compaction=EARLY, approvals={"tools": ["house__charge_card"]}) as guest:
        gated = await guest.say("Charge the card 30")
        context = gated["contextId"]
        asked = await guest.say("Ask the human about dessert", contextId=context)
        for number in range(8):
            await story(guest, context, number)
        assert await guest.metric('compactions_total{method="summary",outcome="ok"') >= 1
        assert [states(await guest.get(task)) for task in (gated, asked)] == ["input-required"] * 2
        assert house.ledger == []
        done = await guest.say("yes", taskId=gated["id"])
        told = await guest.say("Cake", taskId=asked["id"])
    assert states(done) == "completed"
    assert house.ledger == ["charged 30"]
    assert "Cake" in read_answer(told)


async def test_compaction_archive_is_searchable_until_it_expires(agent, stored):
    async with agent(compaction={**EARLY, "archive": {"retainSeconds": 3600}}) as guest:
        task = await guest.say("The walnut table has a crack beside its third drawer, and nobody has noticed so far.")
        context = task["contextId"]
        for number in range(8):
            await story(guest, context, number)
        found = await guest.say('Search the archive with recall_archive for "walnut drawer".', contextId=context)
        assert "crack beside its third drawer" in read_answer(found)
        assert await guest.metric('tool_calls_total{outcome="ok",tool="recall_archive"}') == 1
    before = stored("SELECT count(*) FROM messages WHERE kind='gone'")
    async with agent(compaction={**EARLY, "archive": {"retainSeconds": 1}}) as guest:
        async with within("the archive expires"):
            while not (gone := stored("SELECT count(*) FROM messages WHERE kind='gone'")[0][0]):  # noqa: ASYNC110 - it looks from outside
                await asyncio.sleep(0.1)
        found = await guest.say('Search the archive with recall_archive for "beside".', contextId=context)
        assert "has a crack" not in read_answer(found).partition("Here is what I found.")[2]
    assert before == [(0,)]
    assert gone > 1


async def test_compaction_archive_is_not_searchable_without_its_tool(agent):
    async with agent(compaction={**EARLY, "archive": {"recallTool": False}}) as guest:
        task = await guest.say("The walnut table has a crack.")
        for number in range(8):
            await story(guest, task["contextId"], number)
        await guest.say('Search the archive with recall_archive for "walnut".', contextId=task["contextId"])
        assert await guest.metric('tool_calls_total{outcome="ok",tool="recall_archive"}') == 0
