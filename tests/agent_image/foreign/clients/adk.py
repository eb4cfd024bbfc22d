"""google-adk's RemoteA2aAgent as a client: it makes the common calls that it supports and prints the results."""

import asyncio
import json
import sys
import warnings
from contextlib import asynccontextmanager

import httpx
from a2a.client import ClientConfig, ClientFactory

warnings.simplefilter("ignore")

from google.adk.agents.remote_a2a_agent import RemoteA2aAgent  # noqa: E402 - it warns while it is imported
from google.adk.runners import InMemoryRunner  # noqa: E402 - same
from google.genai import types  # noqa: E402 - same


class Conversation:
    """A session with the remote agent."""

    def __init__(self, runner, session):
        self.runner = runner
        self.session = session

    async def say(self, *parts):
        message = types.Content(role="user", parts=list(parts))
        asked = self.runner.run_async(user_id="u", session_id=self.session.id, new_message=message)
        return [event async for event in asked]


@asynccontextmanager
async def conversation(url, token, *, streaming):
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(headers=headers, timeout=None, trust_env=False) as http:
        factory = ClientFactory(ClientConfig(httpx_client=http, streaming=streaming))
        remote = RemoteA2aAgent(
            name="echo", agent_card=f"{url}/.well-known/agent-card.json", httpx_client=http, a2a_client_factory=factory
        )
        runner = InMemoryRunner(agent=remote, app_name="test")
        session = await runner.session_service.create_session(app_name="test", user_id="u")
        yield Conversation(runner, session)


def text(words):
    return types.Part(text=words)


def parts(events):
    return [part for event in events if event.content for part in event.content.parts]


def texts(events):
    return [part.text for part in parts(events) if part.text]


def said(events):
    """Return the text parts that a user sees, without the parts that the client marks as thoughts."""
    return [part.text for part in parts(events) if part.text and not part.thought]


def named(events, name):
    return {event.custom_metadata[f"a2a:{name}"] for event in events}


async def main(url, token):
    async with conversation(url, token, streaming=False) as plain:
        first = await plain.say(text("hello"))
        second = await plain.say(text("hello again"))
        asked = await plain.say(text("ask Sure?"))
        question = next(part.function_call for part in parts(asked) if part.function_call)
        reply = types.FunctionResponse(id=question.id, name=question.name, response={"result": "yes"})
        answered = await plain.say(types.Part(function_response=reply))
        failed = await plain.say(text("fail"))
    async with conversation(url, token, streaming=True) as live:
        told = await live.say(text("hello"))
        wondered = await live.say(text("ask Sure?"))
        question = next(part.function_call for part in parts(wondered) if part.function_call)
        reply = types.FunctionResponse(id=question.id, name=question.name, response={"result": "yes"})
        decided = await live.say(types.Part(function_response=reply))
    async with conversation(url, "unknown", streaming=True) as stranger:
        refused = await stranger.say(text("hello"))
    report = {
        "sent": texts(first),
        "streamed": [[event.partial, *texts([event])] for event in told if event.content and texts([event])],
        "continued": [texts(second), named(first, "context_id") == named(second, "context_id")],
        "asked": [question.args, texts(answered), named(answered, "task_id") == named(asked, "task_id")],
        "decided": [said(decided), sum(1 for part in parts(decided) if part.function_call)],
        "failed": texts(failed),
        "unknown": [event.error_message.splitlines()[0].partition(" for url")[0] for event in refused],
    }
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
