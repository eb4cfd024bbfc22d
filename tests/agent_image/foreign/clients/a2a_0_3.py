"""The Python SDK of A2A 0.3 as a client: it makes the common calls of these clients and prints the results as JSON.

It registers a receiver only if its last argument is not empty.
"""

import asyncio
import json
import sys
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.errors import A2AClientError
from a2a.types import (
    GetTaskPushNotificationConfigParams,
    Message,
    Part,
    PushNotificationConfig,
    Role,
    TaskIdParams,
    TaskPushNotificationConfig,
    TaskQueryParams,
    TextPart,
    TransportProtocol,
)


def message(text, **more):
    return Message(message_id=uuid4().hex, role=Role.user, parts=[Part(root=TextPart(text=text))], **more)


def text_of(task):
    return task.artifacts[0].parts[0].root.text


async def sent(client, text, **more):
    return [event async for event in client.send_message(message(text, **more))][-1][0]


async def refused(call):
    try:
        await call
    except A2AClientError as error:
        return type(error).__name__
    return "nothing"


async def main(url, token, transport, hook):
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=None, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card()

        def client(**config):
            config = ClientConfig(httpx_client=http, supported_transports=[TransportProtocol(transport)], **config)
            return ClientFactory(config).create(card)

        plain = client(streaming=False)
        task = await sent(plain, "hello")
        states, finals, streamed = [], 0, ""
        async for followed, event in client(streaming=True).send_message(message("hello again")):
            streamed = text_of(followed) if followed.artifacts else ""
            if event is not None and event.kind == "status-update":
                states.append(event.status.state.value)
                finals += event.final
        got = await plain.get_task(TaskQueryParams(id=task.id))
        running = await sent(client(streaming=False, polling=True), "hang")
        cancelled = await plain.cancel_task(TaskIdParams(id=running.id))
        asked = await sent(plain, "ask Sure?")
        question = asked.status.message.parts[0].root.text
        answered = await sent(plain, "yes", task_id=asked.id, context_id=asked.context_id)
        registered = False
        if hook:
            slow = await sent(client(streaming=False, polling=True), "wait 1")
            config = PushNotificationConfig(id="mine", url=hook, token="sesame")
            await plain.set_task_callback(TaskPushNotificationConfig(task_id=slow.id, push_notification_config=config))
            named = GetTaskPushNotificationConfigParams(id=slow.id, push_notification_config_id="mine")
            registered = (await plain.get_task_callback(named)).push_notification_config.url == hook
        report = {
            "card": card.name,
            "sent": [task.status.state.value, text_of(task)],
            "streamed": [states[0], states[-1], streamed],
            "finals": finals,
            "got": [got.status.state.value, text_of(got)],
            "cancelled": cancelled.status.state.value,
            "asked": [asked.status.state.value, question, answered.status.state.value, text_of(answered)],
            "registered": registered,
            "unknown": await refused(plain.get_task(TaskQueryParams(id="nobody"))),
            "ended": await refused(plain.cancel_task(TaskIdParams(id=task.id))),
        }
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
