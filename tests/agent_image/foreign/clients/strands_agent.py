"""strands-agents' A2AAgent as a client: it makes the common calls that it supports and prints the results as JSON."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx
from a2a.client import ClientConfig
from a2a.client.errors import A2AClientHTTPError
from a2a.types import TransportProtocol
from strands.agent.a2a_agent import A2AAgent


@asynccontextmanager
async def remote_agent(url, token, transport):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=False) as http:
        config = ClientConfig(httpx_client=http, supported_transports=[TransportProtocol(transport)])
        yield A2AAgent(url, client_config=config)


def texts(result):
    return [block["text"] for block in result.message["content"]]


def outcome(result):
    return [result.stop_reason, *texts(result)]


async def refused_status(url, transport):
    async with remote_agent(url, "unknown", transport) as stranger:
        try:
            await stranger.invoke_async("hello")
        except A2AClientHTTPError as error:
            return error.status_code
    return "nothing"


async def main(url, token, transport):
    async with remote_agent(url, token, transport) as agent:
        card = await agent.get_agent_card()
        sent = await agent.invoke_async("hello")
        states, streamed = [], []
        async for event in agent.stream_async("hello again"):
            if "result" in event:
                streamed = outcome(event["result"])
                continue
            update = event["event"][1]
            if update is not None and update.kind == "status-update":
                states.append(update.status.state.value)
        report = {
            "card": [card.name, agent.name],
            "sent": outcome(sent),
            "streamed": [states[0], states[-1], *streamed],
            "question": outcome(await agent.invoke_async("ask Sure?")),
            "failed": outcome(await agent.invoke_async("fail")),
            "unknown": await refused_status(url, transport),
        }
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
