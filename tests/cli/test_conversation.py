"""The reply that the command line shows for a task."""

import httpx
import pytest
from a2a.client.errors import A2AClientError
from a2a.types.a2a_pb2 import Artifact, Part, Task, TaskState, TaskStatus

from fleetwright_a2a.extensions import TOOL_CALL
from fleetwright_cli.dev.conversation import Address, Conversation, reply_of


def test_reply_names_the_files_of_tools_after_the_answer():
    file = Artifact(artifact_id="f", name="cut.diff", parts=[Part(text="- long\n+ short", filename="cut.diff")])
    file.metadata.update({TOOL_CALL: {"toolCallId": "1", "name": "rope__cut"}})
    answer = Artifact(artifact_id="a", name="answer", parts=[Part(text="The rope is cut.")])
    task = Task(id="t", status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED), artifacts=[file, answer])
    assert reply_of(task).text == "The rope is cut.\n[A tool returned the file cut.diff.]"


async def test_conversation_sends_no_token_to_another_host():
    hosts = []

    def answer(request: httpx.Request) -> httpx.Response:
        hosts.append(request.url.host)
        interface = {"url": "@evil.test/rpc", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}
        return httpx.Response(200, json={"name": "desk", "supportedInterfaces": [interface]})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        with pytest.raises(A2AClientError, match="invalid url"):
            await Conversation(Address("http://agent.test", "", "secret"), http).say("Hello")
    assert set(hosts) == {"agent.test"}
