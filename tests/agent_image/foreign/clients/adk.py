"""google-adk's RemoteA2aAgent as a client: two turns of a session, and prints what it saw as JSON."""

import asyncio
import json
import sys
import warnings

import httpx

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: E402 - it warns while it is imported
from google.adk.runners import InMemoryRunner  # noqa: E402 - same
from google.genai import types  # noqa: E402 - same


async def said(runner, session, text):
    message = types.Content(role="user", parts=[types.Part(text=text)])
    events = [event async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message)]
    texts = [part.text for event in events if event.content for part in event.content.parts if part.text]
    return texts, [event.error_message for event in events if event.error_message]


async def main(url, token):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=30, trust_env=False) as http:
        remote = RemoteA2aAgent(name="echo", agent_card=f"{url}/.well-known/agent-card.json", httpx_client=http)
        runner = InMemoryRunner(agent=remote, app_name="test")
        session = await runner.session_service.create_session(app_name="test", user_id="u")
        first, errors = await said(runner, session, "hello")
        second, more = await said(runner, session, "hello again")
    print(json.dumps({"first": first[-1], "second": second[-1], "errors": errors + more}))


asyncio.run(main(*sys.argv[1:]))
