"""The Python SDK of A2A 1.x as a client: it makes the common calls of these clients and prints the results as JSON."""

import asyncio
import json
import sys
from pathlib import Path
from uuid import uuid4

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.types import (
    AgentCard,
    CancelTaskRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import A2AError
from a2a.utils.signing import SignatureVerificationError, create_signature_verifier
from jwt import PyJWK


def request(text, **more):
    message = Message(message_id=uuid4().hex, role=Role.ROLE_USER, parts=[Part(text=text)], **more)
    return SendMessageRequest(message=message)


def state(status):
    return TaskState.Name(status.state).removeprefix("TASK_STATE_").lower()


def text_of(task):
    return task.artifacts[0].parts[0].text


async def sent(client, text, **more):
    return [event async for event in client.send_message(request(text, **more))][-1].task


async def refused(call):
    try:
        await call
    except A2AError as error:
        return type(error).__name__
    return "nothing"


def verified(card, verifier):
    """Return True if the signature of the card is valid and a modified card is rejected."""
    changed = AgentCard()
    changed.CopyFrom(card)
    changed.name = "somebody else"
    verifier(card)
    try:
        verifier(changed)
    except SignatureVerificationError:
        return True
    return False


async def main(url, token, transport, hook, key_set):
    keys = {key["kid"]: PyJWK(key) for key in json.loads(Path(key_set).read_text())["keys"]}
    verifier = create_signature_verifier(lambda kid, _: keys[kid], ["ES256"])
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=None, trust_env=False) as http:
        card = await A2ACardResolver(http, url).get_agent_card(signature_verifier=verifier)

        def client(**config):
            config = ClientConfig(httpx_client=http, supported_protocol_bindings=[transport], **config)
            return ClientFactory(config).create(card)

        plain = client(streaming=False)
        task = await sent(plain, "hello")
        states, streamed = [], ""
        async for event in client(streaming=True).send_message(request("hello again")):
            if event.HasField("status_update"):
                states.append(state(event.status_update.status))
            if event.HasField("artifact_update"):
                streamed = event.artifact_update.artifact.parts[0].text
        got = await plain.get_task(GetTaskRequest(id=task.id))
        running = await sent(client(streaming=False, polling=True), "hang")
        cancelled = await plain.cancel_task(CancelTaskRequest(id=running.id))
        asked = await sent(plain, "ask Sure?")
        question = asked.status.message.parts[0].text
        answered = await sent(plain, "yes", task_id=asked.id)
        slow = await sent(client(streaming=False, polling=True), "wait 1")
        config = TaskPushNotificationConfig(task_id=slow.id, url=hook, token="sesame")
        registered = await plain.create_task_push_notification_config(config)
        named = GetTaskPushNotificationConfigRequest(task_id=slow.id, id=registered.id)
        found = await plain.get_task_push_notification_config(named)
        listed = await plain.list_tasks(ListTasksRequest(context_id=task.context_id))
        report = {
            "card": card.name,
            "verified": verified(card, verifier),
            "sent": [state(task.status), text_of(task)],
            "streamed": [states[0], states[-1], streamed],
            "got": [state(got.status), text_of(got)],
            "cancelled": state(cancelled.status),
            "asked": [state(asked.status), question, state(answered.status), text_of(answered)],
            "registered": found.url == hook,
            "listed": [each.id == task.id for each in listed.tasks],
            "unknown": await refused(plain.get_task(GetTaskRequest(id="nobody"))),
            "ended": await refused(plain.cancel_task(CancelTaskRequest(id=task.id))),
        }
    print(json.dumps(report))


asyncio.run(main(*sys.argv[1:]))
