"""Agent Framework's A2AAgent as a client: it makes the common calls that it supports and prints the results as JSON."""

import asyncio
import json
import sys
from contextlib import asynccontextmanager

import httpx
from a2a.client import A2ACardResolver
from a2a.client.errors import A2AClientError
from agent_framework import AgentSession
from agent_framework_a2a import A2AAgent


@asynccontextmanager
async def remote_agent(card, token, binding):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=False) as http:
        yield A2AAgent(agent_card=card, http_client=http, supported_protocol_bindings=[binding])


async def get_card(url, token):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=False) as http:
        return await A2ACardResolver(http, url).get_agent_card()


async def refused_status(card, binding):
    async with remote_agent(card, "unknown", binding) as stranger:
        try:
            await stranger.run("hello")
        except A2AClientError as error:
            return str(error).partition(":")[0]
    return "nothing"


async def main(url, token, binding):
    card = await get_card(url, token)
    async with remote_agent(card, token, binding) as agent:
        session = AgentSession()
        sent = await agent.run("hello", session=session)
        context = session.service_session_id["context_id"]
        continued = await agent.run("hello again", session=session)
        stream = agent.run("hello again", stream=True)
        streamed = [update.text async for update in stream]
        final = await stream.get_final_response()
        conversation = AgentSession()
        asked = await agent.run("ask Sure?", session=conversation)
        task = conversation.service_session_id["task_id"]
        answered = await agent.run("yes", session=conversation)
        started = await agent.run("wait 3", background=True)
        polled = await agent.poll_task(started.continuation_token)
        resumed = await agent.run(continuation_token=started.continuation_token)
        failed = await agent.run("fail", stream=True).get_final_response()
        report = {
            "card": agent.name,
            "sent": sent.text,
            "continued": [continued.text, session.service_session_id["context_id"] == context],
            "streamed": [*streamed, final.text],
            "asked": [
                asked.user_input_requests[0].text,
                answered.text,
                conversation.service_session_id["task_id"] == task,
            ],
            "got": polled.continuation_token == started.continuation_token,
            "resumed": resumed.text,
            "failed": failed.text,
            "unknown": await refused_status(card, binding),
        }
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
