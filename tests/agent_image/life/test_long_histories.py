"""Histories and messages larger than the window, with a provider that rejects and counts oversized prompts."""

import json
import re

import httpx
import pytest
from mcp.server.fastmcp import FastMCP
from starlette.responses import JSONResponse
from tests.support.agent.reports import read_answer
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS

from fleetwright_cli.offline.model import OfflineModel

pytestmark = pytest.mark.starts_first

WINDOW = 8000


class Strict:
    """A provider that rejects prompts larger than the window, and counts them."""

    def __init__(self):
        self.refused = self.answered = 0
        self.turned_away = set()
        self._app = OfflineModel().app()

    async def __call__(self, scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        said = json.loads(body)
        characters = sum(len(str(message.get("content") or "")) for message in said["messages"])
        if characters // 4 > WINDOW:
            self.refused += 1
            self.turned_away.add(body)
            error = {"message": f"maximum context length is {WINDOW} tokens", "code": "context_length_exceeded"}
            await JSONResponse({"error": error}, 400)(scope, receive, send)
            return
        self.answered += 1
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def again():
            return whole.pop() if whole else await receive()

        await self._app(scope, again, send)


@pytest.fixture
def strict(serve):
    provider = Strict()
    with serve(provider) as port:
        about = {"name": "offline", "contextWindow": WINDOW, "maxOutputTokens": 1000, "timeoutSeconds": 30}
        yield provider, {**about, "baseUrl": f"http://127.0.0.1:{port}/v1"}


@pytest.fixture
def library(serve):
    """A server whose only tool returns more than a third of the window."""
    server = FastMCP("library", host="127.0.0.1", port=1, stateless_http=True, json_response=True)

    @server.tool()
    def recite_book(volume: int) -> str:
        """Recite a book of the library."""
        return f"Volume {volume} begins. " + "The sea and the wind. " * 560

    with serve(server.streamable_http_app()) as port:
        yield {"name": "library", "url": f"http://127.0.0.1:{port}/mcp"}


@pytest.mark.exhaustive
async def test_r12_history_of_ten_windows_is_compacted_and_reported(agent, strict, message):
    """The conversation is compacted, each compaction is reported, and no rejected prompt is sent again."""
    provider, document = strict
    async with agent(model=document) as guest:
        first = await guest.say("My customer number is C-7741.")
        context, compacted = first["contextId"], 0
        for number in range(33):
            long = f"Chapter {number}: " + "the sea and the wind and " * 400
            events = guest.events("SendStreamingMessage", message(long, contextId=context))
            told = [json.dumps(event) async for event in events]
            assert "TASK_STATE_COMPLETED" in told[-1], told[-1]
            compacted += any("Compaction ok: " in event for event in told)
        known = await guest.say("What is my customer number?", contextId=context)
    assert 10 * WINDOW < 45 * 300 * 25 // 4
    assert "C-7741" in read_answer(known)
    assert compacted > 2
    assert provider.refused <= compacted, "the agent replaces a rejected summary without the model"
    assert len(provider.turned_away) == provider.refused, "the agent resends no rejected prompt"


LONG = "Tell me of the sea and the wind and " + "the sea and the wind and " * 300
BELIEVED = 128_000


async def long_conversation(guest, messages):
    """Return the number of compactions by trigger, after a conversation in which every message gets an answer."""
    first = await guest.say("My customer number is C-7741.")
    for number in range(messages):
        said = await guest.say(f"Chapter {number}. {LONG}", contextId=first["contextId"])
        assert said["status"]["state"] == "TASK_STATE_COMPLETED", said["status"]
    known = await guest.say("What is my customer number?", contextId=first["contextId"])
    assert "C-7741" in read_answer(known)
    async with httpx.AsyncClient(verify=NO_TLS, base_url=guest.ops_url, timeout=ceiling()) as http:
        counted = re.findall(r'compactions_total{.*trigger="(\w+)"} (\S+)', (await http.get("/metrics")).text)
    return {trigger: float(times) for trigger, times in counted}


async def test_compaction_uses_the_window_learned_from_an_overflow(agent, strict):
    provider, document = strict
    async with agent(model=document | {"contextWindow": BELIEVED}) as guest:
        begun = await long_conversation(guest, 14)
    assert begun.keys() == {"overflow", "fraction"}
    assert begun["overflow"] == provider.refused == 1, begun


async def test_fallback_with_a_small_window_compacts_once_per_overflow(agent, strict, serve):
    """Compaction uses the window of the agent's own model. The fallback's smaller window would waste most of it."""
    provider, document = strict

    async def down(scope, receive, send):
        await JSONResponse({"error": {"message": "down"}}, 500)(scope, receive, send)

    with serve(down) as port:
        own = {**document, "name": "own", "contextWindow": BELIEVED, "retries": 0}
        own |= {"baseUrl": f"http://127.0.0.1:{port}/v1", "fallbacks": [document]}
        async with agent(model=own) as guest:
            begun = await long_conversation(guest, 14)
    assert begun == {"overflow": provider.refused}
    assert provider.refused > 1


async def test_r12_oversized_message_fails_and_conversation_continues(agent, states, strict):
    provider, document = strict
    async with agent(model=document) as guest:
        first = await guest.say("My customer number is C-7741.")
        huge = await guest.say("the sea and the wind and " * 2000, contextId=first["contextId"])
        assert states(huge) == "failed"
        assert huge["status"]["message"]["metadata"]["reason"] == "model_context_overflow"
        assert provider.refused <= 3, "the agent does not retry an oversized prompt"
        known = await guest.say("What is my customer number?", contextId=first["contextId"])
    assert "C-7741" in read_answer(known)


@pytest.mark.parametrize(
    "order",
    [
        pytest.param("Recite book 1; recite book 2; recite book 3 [[together]]", id="all at once"),
        pytest.param("Recite book 1; recite book 2; recite book 3; recite book 4", id="one after the other"),
    ],
)
async def test_r12_results_beyond_the_window_are_truncated(agent, states, strict, library, order):
    """No single result exceeds its limit, and no message is old enough for a summary."""
    provider, document = strict
    async with agent(model=document, mcpServers=[library]) as guest:
        first = await guest.say("My customer number is C-7741.")
        told = await guest.say(order, contextId=first["contextId"])
        assert states(told) == "completed", told["status"]
        assert "Volume 3 begins." in read_answer(told)
        assert provider.refused <= 1
        known = await guest.say("What is my customer number?", contextId=first["contextId"])
    assert "C-7741" in read_answer(known)
