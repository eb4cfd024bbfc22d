"""The tables of the dialects: methods, states, errors, final events and parts, in both directions."""

import base64
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils import errors
from google.protobuf.json_format import ParseDict

from fleetwright_a2a.bindings.jsonrpc import fault
from fleetwright_a2a.dialects.dialect import Dialect, Operation, read
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.errors import LimitReached, ServiceUnavailable
from fleetwright_a2a.task_events import mark_going_on

METHODS = [
    pytest.param(Operation.SEND, "SendMessage", "message/send", "tasks/send", id="sending"),
    pytest.param(Operation.STREAM, "SendStreamingMessage", "message/stream", "tasks/sendSubscribe", id="streaming"),
    pytest.param(Operation.GET, "GetTask", "tasks/get", "tasks/get", id="reading"),
    pytest.param(Operation.LIST, "ListTasks", None, None, id="listing"),
    pytest.param(Operation.CANCEL, "CancelTask", "tasks/cancel", "tasks/cancel", id="cancelling"),
    pytest.param(Operation.SUBSCRIBE, "SubscribeToTask", "tasks/resubscribe", "tasks/resubscribe", id="coming back"),
    pytest.param(
        Operation.SET_PUSH,
        "CreateTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/set",
        "tasks/pushNotification/set",
        id="registering a receiver",
    ),
    pytest.param(
        Operation.GET_PUSH,
        "GetTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/get",
        "tasks/pushNotification/get",
        id="reading a receiver",
    ),
    pytest.param(
        Operation.LIST_PUSH,
        "ListTaskPushNotificationConfigs",
        "tasks/pushNotificationConfig/list",
        None,
        id="listing receivers",
    ),
    pytest.param(
        Operation.DELETE_PUSH,
        "DeleteTaskPushNotificationConfig",
        "tasks/pushNotificationConfig/delete",
        None,
        id="removing a receiver",
    ),
    pytest.param(
        Operation.EXTENDED_CARD,
        "GetExtendedAgentCard",
        "agent/getAuthenticatedExtendedCard",
        None,
        id="the extended card",
    ),
]


@pytest.mark.parametrize(("operation", "v10", "v03", "v01"), METHODS)
def test_methods_map_to_operations_in_every_dialect(
    operation: Operation, v10: str, v03: str | None, v01: str | None
) -> None:
    for dialect, name in ((V10, v10), (V03, v03), (V01, v01)):
        assert name is None or dialect.methods[name] is operation
        assert (operation in dialect.methods.values()) == (name is not None)


STATES = [
    pytest.param(TaskState.TASK_STATE_SUBMITTED, "submitted", "submitted", False, id="submitted"),
    pytest.param(TaskState.TASK_STATE_WORKING, "working", "working", False, id="working"),
    pytest.param(TaskState.TASK_STATE_INPUT_REQUIRED, "input-required", "input-required", True, id="a question"),
    pytest.param(TaskState.TASK_STATE_AUTH_REQUIRED, "auth-required", "input-required", True, id="a credential"),
    pytest.param(TaskState.TASK_STATE_COMPLETED, "completed", "completed", True, id="completed"),
    pytest.param(TaskState.TASK_STATE_CANCELED, "canceled", "canceled", True, id="cancelled"),
    pytest.param(TaskState.TASK_STATE_FAILED, "failed", "failed", True, id="failed"),
    pytest.param(TaskState.TASK_STATE_REJECTED, "rejected", "failed", True, id="rejected"),
    pytest.param(TaskState.TASK_STATE_UNSPECIFIED, "unknown", "unknown", False, id="nothing known"),
]


@pytest.mark.parametrize(("state", "v03", "v01", "final"), STATES)
def test_states_have_a_name_and_final_flag_in_every_dialect(state: TaskState, v03: str, v01: str, final: bool) -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=state))
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=TaskStatus(state=state))
    for dialect, word in ((V03, v03), (V01, v01)):
        (told,) = dialect.teller()(event)
        assert (told["status"]["state"], told["final"]) == (word, final)
        assert dialect.writes[Operation.GET](task, None)["status"]["state"] == word
    assert "final" not in next(iter(V10.teller()(event)))["statusUpdate"]


def test_auth_required_while_working_is_not_final() -> None:
    status = TaskStatus(state=TaskState.TASK_STATE_AUTH_REQUIRED)
    event = mark_going_on(TaskStatusUpdateEvent(task_id="t", context_id="c", status=status))
    for dialect in (V03, V01):
        (told,) = dialect.teller()(event)
        assert told["final"] is False
    assert list(V01.teller()(mark_going_on(Task(id="t", context_id="c", status=status)))) == []


ERRORS = [
    pytest.param(errors.TaskNotFoundError, -32001, -32001, -32001, id="no such task"),
    pytest.param(errors.TaskNotCancelableError, -32002, -32002, -32002, id="a task that has ended"),
    pytest.param(errors.PushNotificationNotSupportedError, -32003, -32003, -32003, id="no pushes"),
    pytest.param(errors.UnsupportedOperationError, -32004, -32004, -32009, id="not in this state"),
    pytest.param(errors.ContentTypeNotSupportedError, -32005, -32005, -32005, id="not this kind of content"),
    pytest.param(errors.InvalidAgentResponseError, -32006, -32006, -32603, id="an answer that is none"),
    pytest.param(errors.ExtendedAgentCardNotConfiguredError, -32007, -32007, -32603, id="no extended card"),
    pytest.param(errors.ExtensionSupportRequiredError, -32008, -32004, -32004, id="an extension is needed"),
    pytest.param(errors.InvalidParamsError, -32602, -32602, -32602, id="wrong params"),
    pytest.param(errors.InternalError, -32603, -32603, -32603, id="something inside"),
    pytest.param(ServiceUnavailable, -32603, -32603, -32011, id="not right now"),
    pytest.param(LimitReached, -32603, -32603, -32010, id="too much at once"),
]


@pytest.mark.parametrize(("kind", "v10", "v03", "v01"), ERRORS)
def test_errors_have_the_code_of_their_dialect(kind: type[errors.A2AError], v10: int, v03: int, v01: int) -> None:
    for dialect, code in ((V10, v10), (V03, v03), (V01, v01)):
        assert fault(dialect, kind("why"))["code"] == code


PARTS: list[Any] = [
    pytest.param({"text": "x"}, {"kind": "text", "text": "x"}, {"type": "text", "text": "x"}, id="text"),
    pytest.param(
        {"text": "x", "metadata": {"a": "b"}},
        {"kind": "text", "text": "x", "metadata": {"a": "b"}},
        {"type": "text", "text": "x", "metadata": {"a": "b"}},
        id="text with metadata",
    ),
    pytest.param(
        {"data": {"a": ["b"]}},
        {"kind": "data", "data": {"a": ["b"]}},
        {"type": "data", "data": {"a": ["b"]}},
        id="data",
    ),
    pytest.param(
        {"url": "https://x", "filename": "f", "mediaType": "image/png"},
        {"kind": "file", "file": {"uri": "https://x", "name": "f", "mimeType": "image/png"}},
        {"type": "file", "file": {"uri": "https://x", "name": "f", "mimeType": "image/png"}},
        id="a file elsewhere",
    ),
    pytest.param(
        {"raw": base64.b64encode(b"\x00\xff").decode(), "mediaType": "image/png"},
        {"kind": "file", "file": {"bytes": "AP8=", "mimeType": "image/png"}},
        {"type": "file", "file": {"bytes": "AP8=", "mimeType": "image/png"}},
        id="a file within",
    ),
]


def message(dialect: Dialect, part: Any) -> dict[str, Any]:
    if dialect is V01:
        return {"id": "t", "sessionId": "c", "message": {"role": "user", "parts": [part]}}
    role = "ROLE_USER" if dialect is V10 else "user"
    return {"message": {"messageId": "t", "taskId": "t", "contextId": "c", "role": role, "parts": [part]}}


@pytest.mark.parametrize(("v10", "v03", "v01"), PARTS)
def test_parts_round_trip_in_every_dialect(v10: Any, v03: Any, v01: Any) -> None:
    inside = ParseDict(v10, Part())
    task = Task(id="t", context_id="c", artifacts=[Artifact(artifact_id="a", parts=[inside])])
    for dialect, part in ((V10, v10), (V03, v03), (V01, v01)):
        request = read(dialect, Operation.SEND, message(dialect, part))
        assert request.message == Message(
            message_id="t", task_id="t", context_id="c", role=Role.ROLE_USER, parts=[inside]
        )
        assert dialect.writes[Operation.GET](task, None)["artifacts"][0]["parts"] == [part]


def test_v01_artifacts_are_identified_by_index() -> None:
    def piece(name: str, text: str, *, append: bool = False, last: bool = False) -> TaskArtifactUpdateEvent:
        made = Artifact(artifact_id=name, parts=[Part(text=text)])
        return TaskArtifactUpdateEvent(task_id="t", context_id="c", artifact=made, append=append, last_chunk=last)

    tell = V01.teller()
    before = Task(id="t", context_id="c", artifacts=[Artifact(artifact_id="old", parts=[Part(text="x")])])
    before.status.state = TaskState.TASK_STATE_WORKING
    assert list(tell(before)) == []
    pieces = [piece("new", "a"), piece("old", "b", append=True), piece("new", "ab", last=True)]
    told = [each["artifact"] for event in pieces for each in tell(event)]
    assert [(each["index"], each["append"], each.get("lastChunk")) for each in told] == [
        (1, False, None),
        (0, True, None),
        (1, False, True),
    ]


def test_v01_subscription_to_an_ended_task_sends_its_final_state() -> None:
    """A 0.1 client that subscribes to a task at rest receives its artifacts and its final status."""
    made = Artifact(artifact_id="a", parts=[Part(text="x")])
    task = Task(id="t", context_id="c", artifacts=[made], status=TaskStatus(state=TaskState.TASK_STATE_COMPLETED))
    told = list(V01.teller()(task))
    assert [set(each) for each in told] == [{"id", "artifact"}, {"id", "status", "final"}]


PUSHES: list[Any] = [
    pytest.param(
        V03,
        {"taskId": "t", "pushNotificationConfig": {"url": "https://x", "token": "k"}},
        {"taskId": "t", "pushNotificationConfig": {"id": "t", "url": "https://x", "token": "k"}},
        id="0.3, which names a receiver after its task where nobody names it",
    ),
    pytest.param(
        V03,
        {
            "taskId": "t",
            "pushNotificationConfig": {
                "id": "c",
                "url": "https://x",
                "authentication": {"schemes": ["Bearer"], "credentials": "s"},
            },
        },
        None,
        id="0.3 with everything",
    ),
    pytest.param(V01, {"id": "t", "pushNotificationConfig": {"url": "https://x"}}, None, id="0.1"),
    pytest.param(
        V01,
        {
            "id": "t",
            "pushNotificationConfig": {
                "url": "https://x",
                "token": "k",
                "authentication": {"schemes": ["Bearer"], "credentials": "s"},
            },
        },
        None,
        id="0.1 with everything",
    ),
]


@pytest.mark.parametrize(("dialect", "sent", "answered"), PUSHES)
def test_push_configs_round_trip_in_every_dialect(dialect: Dialect, sent: Any, answered: Any) -> None:
    request = read(dialect, Operation.SET_PUSH, sent)
    assert dialect.writes[Operation.SET_PUSH](request, request) == (answered or sent)


@pytest.mark.parametrize(
    ("dialect", "params"),
    [pytest.param(V03, {"id": "t"}, id="0.2 and 0.3"), pytest.param(V01, {"id": "t"}, id="0.1")],
)
def test_push_config_without_id_is_found_by_its_task(dialect: Dialect, params: Any) -> None:
    request = read(dialect, Operation.GET_PUSH, params)
    assert (request.task_id, request.id) == ("t", "t")


def test_v01_status_without_a_time_has_no_timestamp() -> None:
    task = Task(id="t", status=TaskStatus(state=TaskState.TASK_STATE_WORKING))
    assert V01.writes[Operation.GET](task, None)["status"] == {"state": "working"}
