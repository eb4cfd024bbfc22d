"""Prompts of consecutive model calls, as a recording server receives them."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.support.http_server import serve_in_thread
from tests.support.waiting import within

from fleetwright_cli.offline.model import OfflineModel


@dataclass
class Recorded:
    """An offline model that records every request body."""

    app: ASGIApp = field(default_factory=lambda: OfflineModel().app())
    bodies: list[dict[str, Any]] = field(default_factory=list)
    port: int = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = bytearray()

        async def heard() -> Any:
            message = await receive()
            body.extend(message.get("body", b""))
            if message["type"] == "http.request" and not message.get("more_body"):
                self.bodies.append(json.loads(bytes(body)))
            return message

        await self.app(scope, heard if scope["type"] == "http" else receive, send)

    def model(self, **changes: Any) -> dict[str, Any]:
        limits = {"contextWindow": 8000, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        return {"name": "offline", "baseUrl": f"http://127.0.0.1:{self.port}/v1", **limits, **changes}

    def prompts(self) -> list[str]:
        """Return the prompts in the order of a caching provider: tools, then messages."""
        return ["".join(json.dumps(part) for part in (*body["tools"], *body["messages"])) for body in self.bodies]


@pytest.fixture
def recorded(process_ring: None) -> Iterator[Recorded]:
    found = Recorded()
    with serve_in_thread(found) as port:
        found.port = port
        yield found


async def test_prompt_extends_the_prompt_before_it(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        first = await guest.say("My dog is called Rex. Book table for 2")
        await guest.say("Charge card 5 [[mute:1]]", contextId=first["contextId"])
        await guest.say("What is my dog called?", contextId=first["contextId"])
    asked = [prompt for prompt in recorded.prompts() if "Please continue." not in prompt]
    assert len(asked) == 5
    for before, after in pairwise(asked):
        assert after.startswith(before)


REMEMBERING = {
    "subAgents": [
        {
            "name": "waiter",
            "description": "Serves guests.",
            "instructions": "You are the waiter of the house.",
            "tools": ["house__book_table"],
        }
    ],
    "memory": {"knowledge": {"enabled": True}, "skills": {"enabled": True}},
}
TURNS = (
    "Book table for 2",
    'Give a task to the sub-agent waiter: "Book table for 4"',
    "What are prices in, and how do I book a table?",
    "Charge card 5; book table for 3",
    "Load skill tables",
    "Forget remembered fact 1",
    "Hello again",
)


def is_remembered(message: dict[str, Any]) -> bool:
    return message["role"] == "user" and str(message["content"]).startswith(("<remembered_facts", "<learned_skills"))


@pytest.fixture
def with_skill(mounted: Any) -> dict[str, Any]:
    folder = mounted.layout.skill("tables")
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tables\ndescription: How tables are laid\n---\nLay them well.\n")
    return {"skills": [{"name": "tables", "description": "How tables are laid", "digest": "d"}]}


async def test_prompt_ends_with_recalled_memory_and_keeps_its_prefix(agent, recorded, house, with_skill):
    async with agent(model=recorded.model(contextWindow=32_000), **REMEMBERING, **with_skill) as guest:
        await guest.say('Always remember the fact "Prices are in crowns"', contextId="before")
        recorded.bodies.clear()
        for text in TURNS:
            await guest.say(text, contextId="c")
    # A sub-agent has a conversation of its own.
    own = [body for body in recorded.bodies if "waiter of the house" not in json.dumps(body["messages"][0])]
    lasting: list[str] = []
    passing = 0
    for body in own:
        places = [i for i, message in enumerate(body["messages"]) if is_remembered(message)]
        assert places in ([], [len(body["messages"]) - 1]), "memories come last"
        passing += len(places)
        stays = body["messages"][: places[0]] if places else body["messages"]
        lasting.append("".join(json.dumps(part) for part in (*body["tools"], *stays)))
    assert passing >= 8, "the prompts include facts and skills"
    assert any("<learned_skills" in json.dumps(body["messages"][-1]) for body in own)
    for before, after in pairwise(lasting):
        assert after.startswith(before)


async def test_anthropic_cache_mark_precedes_recalled_memory(agent, recorded, house):
    model = {**recorded.model(promptCache=True, provider="Anthropic"), "baseUrl": f"http://127.0.0.1:{recorded.port}"}
    async with agent(model=model, memory={"knowledge": {"enabled": True}}) as guest:
        await guest.say('Always remember the fact "Prices are in crowns"', contextId="before")
        recorded.bodies.clear()
        await guest.say("Book table for 2", contextId="c")
    assert len(recorded.bodies) == 2
    for body in recorded.bodies:
        blocks = body["messages"][-1]["content"]
        assert "remembered_facts" in blocks[-1]["text"]
        assert ["cache_control" in block for block in blocks] == [False] * (len(blocks) - 2) + [True, False]
        assert "cache_control" not in body


async def test_prompts_of_conversations_share_tools_and_system_message(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        await guest.by("agent:team/peer").say("Hello from one")
        await guest.by("agent:team/peer").say("Good morning from another")
    one, other = recorded.bodies
    assert one["tools"] == other["tools"]
    assert one["messages"][0] == other["messages"][0]
    assert one["messages"][1] != other["messages"][1]


@pytest.mark.parametrize("declared", [pytest.param(True, id="declared"), pytest.param(False, id="not declared")])
async def test_prompt_cache_key_is_stable_for_a_conversation(agent, recorded, declared):
    async with agent(model=recorded.model(promptCache=declared)) as guest:
        first = await guest.say("Hello")
        await guest.say("Hello again", contextId=first["contextId"])
        await guest.say("Hello from elsewhere")
    keys = [body.get("prompt_cache_key") for body in recorded.bodies]
    if declared:
        assert keys[0] == keys[1] != keys[2]
        assert "default" not in json.dumps(keys)
    else:
        assert keys == [None] * 3


async def test_cancelled_task_keeps_results_of_finished_calls(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        task = await guest.say("Book table for 4; cook a dish of 3 portions [[together]]", now=True)
        async with within("the tool has run"):
            while await guest.metric("tool_calls_total") < 1 or "cooked 3" not in house.ledger:  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.02)
        await guest.call("CancelTask", {"id": task["id"]})
        assert (await guest.rested(task))["status"]["state"] == "TASK_STATE_CANCELED"
        await guest.say("Hello", contextId=task["contextId"])
    told = [message["content"] for message in recorded.bodies[-1]["messages"] if message["role"] == "tool"]
    assert any("A table for 4 is booked" in text for text in told), told
    assert any(text.startswith("Aborted") for text in told), told


async def test_model_retry_wait_ends_with_a_cancelled_task(agent, recorded):
    async with agent(model=recorded.model()) as guest:
        task = await guest.say("Hello [[fail:503]]", now=True)
        async with within("a model call fails"):
            while not await guest.metric('llm_calls_total{model="offline",outcome="model_error"}'):  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.01)
        await guest.call("CancelTask", {"id": task["id"]})
        assert (await guest.rested(task))["status"]["state"] == "TASK_STATE_CANCELED"
    assert len(recorded.bodies) == 1, "the agent repeats no model call"
