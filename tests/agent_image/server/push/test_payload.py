"""Push payloads of each dialect, as its own SDK or specification reads them."""

from typing import Any

import pytest
from a2a.compat.v0_3.types import Task as Task03
from a2a.types.a2a_pb2 import Artifact, Message, Part, Role, StreamResponse, Task, TaskState, TaskStatus
from google.protobuf.json_format import ParseDict

from fleetwright_agent.server.push.payload import payload


@pytest.fixture
def task() -> Task:
    said = Message(message_id="m", role=Role.ROLE_USER, parts=[Part(text="hello")])
    return Task(
        id="t",
        context_id="c",
        status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED),
        history=[said],
        artifacts=[Artifact(artifact_id="a", name="answer", parts=[Part(text="hi")])],
    )


def test_push_payload_1_0_is_a_stream_response(task: Task) -> None:
    assert ParseDict(payload("1.0", task), StreamResponse()).task == task


def test_push_payload_0_3_is_a_task(task: Task) -> None:
    sent: dict[str, Any] = payload("0.3", task)
    read = Task03.model_validate(sent)
    assert (sent["kind"], sent["contextId"], sent["status"]["state"]) == ("task", "c", "completed")
    assert read.artifacts is not None
    assert sent["artifacts"][0]["parts"] == [{"kind": "text", "text": "hi"}]
