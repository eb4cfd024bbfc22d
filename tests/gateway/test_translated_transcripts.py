"""The recorded conversations of A2A 0.1, through the gateway, with an agent that supports only A2A 1.0."""

from dataclasses import replace
from typing import Any

import pytest
from tests.support.gateway.calls import CALLEE, caller_token
from tests.support.gateway.fleet_api import FleetApi
from tests.support.gateway.sdk_agent import ScriptedExecutor, SdkAgent
from tests.support.gateway.served_gateway import CARD, Client, running
from tests.support.v01_transcripts import SCRIPT, SESSION, TRANSCRIPTS, Exchange, without_times

from fleetwright_gateway.settings import GatewaySettings

pytestmark = pytest.mark.process
_EVENT = "data: "


async def _responses(client: Client, token: str, exchange: Exchange) -> list[Any]:
    async with client.request("POST", f"{CALLEE}/a2a", token=token, json=exchange.request) as answer:
        assert answer.status == 200
        text = await answer.text()
        media_type = answer.headers["Content-Type"].partition(";")[0]
    if not exchange.is_stream:
        assert media_type == "application/json"
        return [without_times(text)]
    assert media_type == "text/event-stream"
    assert {line[: len(_EVENT)] for line in text.splitlines() if line} == {_EVENT}
    return [without_times(line[len(_EVENT) :]) for line in text.splitlines() if line]


@pytest.mark.parametrize("name", TRANSCRIPTS)
async def test_v01_translation_equals_its_transcript(api: FleetApi, settings: GatewaySettings, name: str) -> None:
    api.add_running_agent("caller", spec={"fleet": {"reach": "Direct"}})
    api.add_running_agent("callee", spec={"fleet": {"reach": "Direct"}})
    api.add_card("callee", CARD)
    agent = SdkAgent(ScriptedExecutor(SCRIPT))
    async with agent.serving(), running(api, replace(settings, agent_port=agent.port)) as client:
        token = caller_token(api)
        for exchange in TRANSCRIPTS[name]:
            assert await _responses(client, token, exchange) == exchange.responses
    assert set(agent.versions) == {"1.0"}
    sent = [exchange.request["params"]["message"]["parts"][0]["text"] for exchange in TRANSCRIPTS[name]]
    assert [[part.text for part in message.parts] for message in agent.executor.messages] == [[text] for text in sent]
    assert {message.context_id for message in agent.executor.messages} == {SESSION}
    assert len({message.task_id for message in agent.executor.messages}) == 1
    assert agent.executor.accepted == [["text", "text/plain"]] * len(sent)
