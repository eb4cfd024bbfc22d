"""What is sent to the model from one call to the next, as a server records it."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send
from tests.agent_image.life.conftest import serving

from fleetwright_cli.offline.model import OfflineModel


@dataclass
class Recorded:
    """The offline model, and every body that was sent to it."""

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
        """As a provider that caches reads them: tools, then messages."""
        return ["".join(json.dumps(part) for part in (*body["tools"], *body["messages"])) for body in self.bodies]


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    found = Recorded()
    with serving(found) as port:
        found.port = port
        yield found


async def test_each_prompt_begins_with_the_whole_of_the_one_before(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        first = await guest.say("My dog is called Rex. Book table for 2")
        await guest.say("Charge card 5 [[mute:1]]", contextId=first["contextId"])
        await guest.say("What is my dog called?", contextId=first["contextId"])
    asked = [prompt for prompt in recorded.prompts() if "Please continue." not in prompt]
    assert len(asked) == 5
    for before, after in pairwise(asked):
        assert after.startswith(before)


async def test_another_conversation_shares_tools_and_system_message(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        await guest.by("agent:team/peer").say("Hello from one")
        await guest.by("agent:team/peer").say("Good morning from another")
    one, other = recorded.bodies
    assert one["tools"] == other["tools"]
    assert one["messages"][0] == other["messages"][0]
    assert one["messages"][1] != other["messages"][1]


@pytest.mark.parametrize("declared", [pytest.param(True, id="declared"), pytest.param(False, id="not declared")])
async def test_a_conversation_has_one_key_for_the_providers_cache(agent, recorded, declared):
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


async def test_what_finished_beside_a_call_that_was_cancelled_is_not_lost(agent, recorded, house):
    async with agent(model=recorded.model()) as guest:
        task = await guest.say("Book table for 4; cook a dish of 3 portions [[together]]", now=True)
        async with asyncio.timeout(60):
            while await guest.metric("tool_calls_total") < 1 or "cooked 3" not in house.ledger:  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.02)
        await guest.call("CancelTask", {"id": task["id"]})
        assert (await guest.rested(task))["status"]["state"] == "TASK_STATE_CANCELED"
        await guest.say("Hello", contextId=task["contextId"])
    told = [message["content"] for message in recorded.bodies[-1]["messages"] if message["role"] == "tool"]
    assert any("A table for 4 is booked" in text for text in told), told
    assert any(text.startswith("Aborted") for text in told), told


async def test_a_wait_before_another_try_ends_with_its_task(agent, recorded):
    async with agent(model=recorded.model()) as guest:
        task = await guest.say("Hello [[fail:503]]", now=True)
        async with asyncio.timeout(60):
            while not await guest.metric('llm_calls_total{model="offline",outcome="model_error"}'):  # noqa: ASYNC110 - from outside
                await asyncio.sleep(0.01)
        await guest.call("CancelTask", {"id": task["id"]})
        assert (await guest.rested(task))["status"]["state"] == "TASK_STATE_CANCELED"
    assert len(recorded.bodies) == 1, "nothing was asked again"
