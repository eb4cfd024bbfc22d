"""Sixty turns of one conversation, after which all records of it agree.

The conversation includes compactions, a kill, a failing model, an oversized prompt and an exhausted budget.
It also includes an approval and a sub-agent, whose learned skill another conversation uses.
The transcript, the counters, the ledger, the task costs and the audit trail must each be complete.
"""

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.support.agent.reports import read_answer
from tests.support.waiting import await_until

from fleetwright_a2a.extensions import COST
from fleetwright_agent.audit.verification import verify
from fleetwright_agent.storage.sqlite.conversations import schema

pytestmark = [pytest.mark.starts_first, pytest.mark.exhaustive]

CONTEXT = "about-everything"
CUT = "Tell me a story that takes its time. [[long:100]] [[pause:0.1]]"
RULE = "Always answer in formal language."
WAITER = {
    "name": "waiter",
    "description": "Serves guests.",
    "instructions": "You are the waiter of the house. Be quick.",
    "tools": ["house__book_table"],
}
AGENT = {
    "administrators": ["default"],
    "approvals": {"tools": ["house__charge_card"]},
    "compaction": {"trigger": {"tokens": 2500}, "keep": {"messages": 4}},
    "memory": {"skills": {"enabled": True}},
    "subAgents": [WAITER],
}
ROOM = [{"period": "Month", "tokens": 4_000_000}]
NONE_LEFT = [{"period": "Month", "tokens": 4000}]


@pytest.fixture
def model(model_port: int) -> dict[str, Any]:
    endpoint = {
        "baseUrl": f"http://127.0.0.1:{model_port}/v1",
        "contextWindow": 8000,
        "maxOutputTokens": 1000,
        "timeoutSeconds": 30,
    }
    spare = {**endpoint, "name": "spare", "price": {"inputPerMillion": "3", "outputPerMillion": "6"}}
    price = {"inputPerMillion": "1", "outputPerMillion": "2"}
    return {**endpoint, "name": "offline", "price": price, "fallbacks": [spare]}


@dataclass
class Account:
    """The sum of the work and the usage that the tasks of one process report."""

    guest: Any
    former: "Account | None" = None
    """The account of the process before."""
    said: list[str] = field(default_factory=list)
    tokens: int = 0
    dollars: float = 0.0

    async def say(self, text: str, *, context: str = CONTEXT, **message: Any) -> dict[str, Any]:
        where = {} if "taskId" in message else {"contextId": context}
        task: dict[str, Any] = await self.guest.say(text, **where, **message)
        self.enter(text, task)
        return task

    def enter(self, text: str, task: dict[str, Any]) -> None:
        self.said.append(text)
        if task["status"]["state"] == "TASK_STATE_COMPLETED":
            # The final cost of a task includes its usage before a question.
            used = task["artifacts"][0]["metadata"][COST]
            self.tokens += used["usage"]["input_tokens"] + used["usage"]["output_tokens"]
            self.dollars += used["costUsd"]

    async def stories(self, number: int) -> None:
        for _ in range(number):
            task = await self.say(f"Tell me a story, number {len(self.said)}. [[long:250]]")
            assert task["status"]["state"] == "TASK_STATE_COMPLETED"

    def all(self) -> "list[Account]":
        """Return this account and those of all earlier processes."""
        return [*(self.former.all() if self.former else []), self]

    async def agrees(self) -> None:
        """Check that the counters equal the sums of this process and of all earlier ones."""
        tokens, dollars = sum(each.tokens for each in self.all()), sum(each.dollars for each in self.all())
        assert await self.guest.metric("llm_tokens_total") == tokens
        assert await self.guest.metric("llm_cost_usd_total") == pytest.approx(dollars, abs=60e-6)


async def before_the_kill(here: Account) -> None:
    """Run the first thirty turns."""
    guest = here.guest
    await here.say(f"My customer number is C-7741. {RULE}")
    await here.stories(3)
    assert "sea" in read_answer(await here.say("Tell me about the sea. [[fail:overflow*1]]"))
    assert await guest.metric('overflow_recoveries_total{outcome="recovered"}') == 1
    await here.stories(1)
    assert "A table for 2 is booked." in read_answer(await here.say("Book table for 2"))
    await here.stories(4)
    taught = await here.say('Give a task to the sub-agent waiter: "Book table for 4"')
    assert [artifact["name"] for artifact in taught["artifacts"]][1:], "the task reports the learned skill"
    await here.stories(4)
    assert "A table for 3 is booked." in read_answer(await here.say("Book table for 3 [[fail:401@offline]]"))
    assert await guest.metric("model_fallbacks_total") >= 1
    await here.stories(4)
    asks = await here.say("Charge card 30")
    assert asks["status"]["state"] == "TASK_STATE_INPUT_REQUIRED"
    assert "The card is charged 30." in read_answer(await here.say("yes", taskId=asks["id"]))
    await here.stories(3)
    await here.stories(30 - len(here.said))
    assert await guest.metric("compactions_total") >= 1


async def killed_in_a_turn(guest: Any) -> dict[str, Any]:
    """Kill the agent after the model streamed a part of its answer, and return the task.

    The model had not reported its usage yet, so the next process charges the call.
    """
    compacted = await guest.metric("compactions_total")
    task: dict[str, Any] = await guest.say(CUT, contextId=CONTEXT, now=True)

    async def has_output() -> bool:
        return bool((await guest.get(task)).get("artifacts"))

    await await_until(has_output, "the task shows a part of its answer")
    assert await guest.metric("compactions_total") == compacted, "a compaction would add its own cost"
    await guest.kill()
    return task


async def test_long_conversation_records_agree_after_sixty_turns(agent_process, model, mounted, house):
    lives = []
    async with agent_process(model=model, budgets=ROOM, **AGENT) as guest:
        lives.append(first := Account(guest))
        await before_the_kill(first)
        await first.agrees()
        cut = await killed_in_a_turn(guest)
    async with agent_process(model=model, budgets=ROOM, **AGENT) as guest:
        lives.append(second := Account(guest, first))
        second.enter(CUT, ended := await guest.rested(cut))
        assert ended["status"]["state"] == "TASK_STATE_COMPLETED"
        await second.stories(21)
        assert await guest.metric("compactions_total") >= 1
        await second.agrees()
        await guest.leave()
    async with agent_process(model=model, budgets=NONE_LEFT, **AGENT) as guest:
        lives.append(third := Account(guest, second))
        refused = await third.say("Book table for 9")
        assert refused["status"]["state"] == "TASK_STATE_REJECTED"
        assert refused["status"]["message"]["metadata"]["reason"] == "budget_exceeded"
        await third.agrees()
        await guest.leave()
    async with agent_process(model=model, budgets=ROOM, **AGENT) as guest:
        lives.append(fourth := Account(guest, third))
        recalled = await guest.metric("skills_recalled_total")
        await fourth.stories(5)
        assert "C-7741" in read_answer(await fourth.say("What is my customer number?"))
        assert await guest.metric("skills_recalled_total") == recalled, "the skill does not match a story"
        assert "A table for 6 is booked." in read_answer(await fourth.say("Book table for 6", context="another"))
        assert await guest.metric("skills_recalled_total") > recalled
        await fourth.agrees()
        exported = await export(guest)
        await guest.leave()
    assert sum(len(life.said) for life in lives) == 60
    transcript_agrees(exported, lives)
    ledger_agrees(mounted, lives)
    audit_agrees(mounted, house)


async def export(guest: Any) -> list[dict[str, Any]]:
    async with guest.http() as http:
        answer = await http.get("/admin/memory", params={"owner": "client:default"})
        assert answer.status_code == 200, answer.text
        return [json.loads(line) for line in answer.text.splitlines()]


def transcript_agrees(exported: list[dict[str, Any]], lives: list[Account]) -> None:
    """Check that the export has every message, including compacted ones. An approval is not a message."""
    said = [text for life in lives for text in life.said if text != "yes"]
    kept = [line for line in exported if line["kind"] == "conversation"]
    asked = [message["text"] for line in kept for message in line["messages"] if message["role"] == "human"]
    assert sorted(asked) == sorted(said)
    tasks = [line["task"] for line in exported if line["kind"] == "task"]
    assert len(tasks) == sum(len(life.said) for life in lives) - 1, "one task has a second message, the approval"


def ledger_agrees(mounted: Any, lives: list[Account]) -> None:
    with closing(sqlite3.connect(mounted.layout.memory / schema.FILE)) as db:
        rows = db.execute("SELECT sum(input + output), sum(picos) FROM ledger GROUP BY life ORDER BY life").fetchall()
    worked = [life for life in lives if life.tokens]
    assert [tokens for tokens, _ in rows] == [life.tokens for life in worked]
    for (_, picos), life in zip(rows, worked, strict=True):
        assert picos / 1e12 == pytest.approx(life.dollars, abs=len(life.said) * 1e-6)


def audit_agrees(mounted: Any, house: Any) -> None:
    """Check that the hash chain is intact, and that each tool effect has an audit record."""
    folder = mounted.layout.memory / "audit"
    assert not verify(folder).broken
    lines = [json.loads(line) for line in (folder / "audit.jsonl").read_text().splitlines()]
    called = [line["tool"] for line in lines if line["event"] == "tool_call" and line["tool"].startswith("house__")]
    assert sorted(called) == ["house__book_table"] * 4 + ["house__charge_card"]
    assert house.ledger == ["table for 2", "table for 4", "table for 3", "charged 30", "table for 6"]
