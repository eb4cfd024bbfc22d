"""The client side of A2A 1.0: what an older client gets through it equals the answer of an agent with its version."""

import json
from collections.abc import Iterable
from contextlib import nullcontext
from typing import Any

import pytest
from a2a.types.a2a_pb2 import (
    Artifact,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskArtifactUpdateEvent,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils import errors
from google.protobuf.struct_pb2 import Struct, Value
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.examples import count_examples

from fleetwright_a2a.bindings.jsonrpc import fault
from fleetwright_a2a.dialects.dialect import Dialect, Operation, read
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.dialects.v03 import V03
from fleetwright_a2a.dialects.v10 import V10
from fleetwright_a2a.dialects.v10_client import MAX_VALUES, METHODS, decode_event, decode_response, encode_request
from fleetwright_a2a.errors import LimitReached, ServiceUnavailable
from fleetwright_a2a.extensions import GOES_ON

TOO_MANY = "more than 100000 values"
OLDER = pytest.mark.parametrize("dialect", [pytest.param(V03, id="0.3"), pytest.param(V01, id="0.1")])

MANY = settings(max_examples=count_examples(50), deadline=None, suppress_health_check=[HealthCheck.too_slow])

texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=8)
ids = st.text("abc-1", min_size=1, max_size=4)
values = st.recursive(
    st.none() | st.booleans() | st.floats(-1e6, 1e6) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


def struct(content: dict[str, Any]) -> Struct:
    made = Struct()
    made.update(content)
    return made


def value(content: dict[str, Any]) -> Value:
    return Value(struct_value=struct(content))


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


metadata = optional(st.dictionaries(texts, values, min_size=1, max_size=2).map(struct))
media_types = st.sampled_from(["", "image/png"])
parts = st.one_of(
    st.builds(Part, text=texts, metadata=metadata),
    st.builds(Part, data=st.dictionaries(texts, values, max_size=2).map(value), metadata=metadata),
    st.builds(
        Part, url=st.just("https://example.com/f"), filename=texts, media_type=st.sampled_from(["", "image/png"])
    ),
    st.builds(Part, raw=st.binary(max_size=4), filename=texts, media_type=st.sampled_from(["", "image/png"])),
)
messages = st.builds(
    Message,
    message_id=ids,
    context_id=ids,
    task_id=ids,
    role=st.sampled_from([Role.ROLE_USER, Role.ROLE_AGENT]),
    parts=st.lists(parts, min_size=1, max_size=2),
    metadata=metadata,
)
times = st.builds(
    Timestamp, seconds=st.integers(0, 2**32), nanos=st.integers(0, 999).map(lambda each: each * 1_000_000)
)
states = st.sampled_from(list(TaskState.values()))
statuses = st.builds(TaskStatus, state=states, message=optional(messages), timestamp=times)
artifacts = st.builds(
    Artifact,
    artifact_id=ids,
    name=texts,
    description=texts,
    parts=st.lists(parts, min_size=1, max_size=2),
    metadata=metadata,
)
going_on = st.sampled_from([None, {GOES_ON: True}]).map(lambda found: found and struct(found))
tasks = st.builds(
    Task,
    id=ids,
    context_id=ids,
    status=statuses,
    artifacts=st.lists(artifacts, max_size=2),
    history=st.lists(messages, max_size=2),
    metadata=st.one_of(metadata, going_on),
)
events = st.one_of(
    tasks,
    messages,
    st.builds(
        TaskStatusUpdateEvent, task_id=ids, context_id=ids, status=statuses, metadata=st.one_of(metadata, going_on)
    ),
    st.builds(
        TaskArtifactUpdateEvent,
        task_id=ids,
        context_id=ids,
        artifact=artifacts,
        append=st.booleans(),
        last_chunk=st.booleans(),
    ),
)


def response(**content: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": "r", **content}).encode()


def answered(operation: Operation, answer: Any) -> Any:
    """Return what the client reads if an agent answers in A2A 1.0."""
    return decode_response(operation, response(result=V10.writes[operation](answer, None)))


def told(events: Iterable[Any]) -> list[Any]:
    tell = V10.teller()
    return [decode_event(response(result=document)) for event in events for document in tell(event)]


@OLDER
@pytest.mark.parametrize("operation", [Operation.SEND, Operation.GET])
@MANY
@given(task=tasks)
def test_task_through_1_0_equals_a_direct_answer(dialect: Dialect, operation: Operation, task: Task) -> None:
    write = dialect.writes[operation]
    assert write(answered(operation, task), None) == write(task, None)


@MANY
@given(message=messages)
def test_message_through_1_0_equals_a_direct_answer(message: Message) -> None:
    write = V03.writes[Operation.SEND]
    assert write(answered(Operation.SEND, message), None) == write(message, None)


@OLDER
@MANY
@given(stream=st.lists(events, max_size=4))
def test_stream_through_1_0_equals_a_direct_stream(dialect: Dialect, stream: list[Any]) -> None:
    direct, translated = dialect.teller(), dialect.teller()
    found = [document for event in told(stream) for document in translated(event)]
    assert found == [document for event in stream for document in direct(event)]


@pytest.mark.parametrize("state", TaskState.values(), ids=TaskState.keys())
@OLDER
def test_every_state_through_1_0_keeps_its_name_and_final_flag(dialect: Dialect, state: TaskState) -> None:
    task = Task(id="t", context_id="c", status=TaskStatus(state=state))
    event = TaskStatusUpdateEvent(task_id="t", context_id="c", status=task.status)
    assert dialect.writes[Operation.GET](answered(Operation.GET, task), None) == dialect.writes[Operation.GET](
        task, None
    )
    assert [list(dialect.teller()(each)) for each in told([task, event])] == [
        list(dialect.teller()(each)) for each in (task, event)
    ]


REQUESTS: list[Any] = [
    (V03, "message/send", {"message": {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}}),
    (
        V03,
        "message/stream",
        {
            "message": {
                "messageId": "m",
                "taskId": "t",
                "contextId": "c",
                "role": "user",
                "parts": [{"kind": "data", "data": {"a": [1.5, None]}}, {"kind": "file", "file": {"uri": "https://x"}}],
                "metadata": {"a": "b"},
            },
            "configuration": {"blocking": False, "historyLength": 0, "acceptedOutputModes": ["text/plain"]},
            "metadata": {"c": {"d": True}},
        },
    ),
    (V03, "tasks/get", {"id": "t"}),
    (V03, "tasks/get", {"id": "t", "historyLength": 0}),
    (V03, "tasks/cancel", {"id": "t"}),
    (V03, "tasks/resubscribe", {"id": "t"}),
    (V01, "tasks/send", {"id": "t", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}}),
    (
        V01,
        "tasks/sendSubscribe",
        {
            "id": "t",
            "sessionId": "s",
            "message": {
                "role": "user",
                "parts": [{"type": "file", "file": {"bytes": "AP8=", "mimeType": "image/png"}}],
            },
            "acceptedOutputModes": ["text"],
            "historyLength": 3,
            "metadata": {"a": "b"},
        },
    ),
    (V01, "tasks/get", {"id": "t", "historyLength": 2}),
    (V01, "tasks/cancel", {"id": "t"}),
    (V01, "tasks/resubscribe", {"id": "t"}),
]


@pytest.mark.parametrize(
    ("dialect", "method", "params"),
    [pytest.param(*each, id=f"{each[0].version} {each[1]} {place}") for place, each in enumerate(REQUESTS)],
)
def test_older_request_arrives_unchanged_at_1_0(dialect: Dialect, method: str, params: Any) -> None:
    operation = dialect.methods[method]
    request = read(dialect, operation, params)
    sent = json.loads(encode_request(operation, request, request_id="r"))
    assert (sent["jsonrpc"], sent["id"], V10.methods[sent["method"]]) == ("2.0", "r", operation)
    assert V10.reads[operation](sent["params"]) == request


@MANY
@given(message=messages, length=st.none() | st.integers(0, 5), immediately=st.booleans())
def test_every_message_arrives_unchanged_at_1_0(message: Message, length: int | None, immediately: bool) -> None:
    request = SendMessageRequest(message=message)
    request.configuration.return_immediately = immediately
    if length is not None:
        request.configuration.history_length = length
    sent = json.loads(encode_request(Operation.SEND, request, request_id="r"))
    assert V10.reads[Operation.SEND](sent["params"]) == request


def test_every_operation_has_a_method_of_1_0() -> None:
    assert METHODS.keys() == set(Operation)
    for operation, request in (
        (Operation.GET, GetTaskRequest(id="t")),
        (Operation.CANCEL, CancelTaskRequest(id="t")),
        (Operation.SUBSCRIBE, SubscribeToTaskRequest(id="t")),
        (Operation.LIST, ListTasksRequest(context_id="c", page_size=5)),
    ):
        sent = json.loads(encode_request(operation, request, request_id="r"))
        assert V10.reads[operation](sent["params"]) == request


MISSING = errors.InvalidParamsError(
    "Validation failed",
    data={"errors": [{"field": "message.parts", "message": "Field must contain at least one element."}]},
)
ERRORS = [
    *(pytest.param(kind("why"), id=kind.__name__) for kind in errors.JSON_RPC_ERROR_CODE_MAP),
    pytest.param(MISSING, id="missing fields"),
]


@pytest.mark.parametrize("error", ERRORS)
@OLDER
def test_every_error_through_1_0_equals_a_direct_error(dialect: Dialect, error: errors.A2AError) -> None:
    sent = response(error=fault(V10, error))
    for decode in (lambda: decode_response(Operation.GET, sent), lambda: decode_event(sent)):
        with pytest.raises(errors.A2AError) as found:
            decode()
        assert fault(dialect, found.value) == fault(dialect, error)


@pytest.mark.parametrize(
    ("status", "kind", "retry_after", "seconds"),
    [
        pytest.param(503, ServiceUnavailable, "7", 7, id="not right now"),
        pytest.param(503, ServiceUnavailable, "", 1, id="no Retry-After"),
        pytest.param(503, ServiceUnavailable, "Wed, 21 Oct 2026 07:28:00 GMT", 1, id="a date"),
        pytest.param(503, ServiceUnavailable, "9" * 40, 86_400, id="too long"),
        pytest.param(429, LimitReached, "60", 60, id="too much at once"),
    ],
)
def test_temporary_error_keeps_its_status_and_delay(
    status: int, kind: type[ServiceUnavailable], retry_after: str, seconds: int
) -> None:
    body = response(error={"code": -32603, "message": "later"})
    with pytest.raises(ServiceUnavailable) as found:
        decode_response(Operation.SEND, body, status=status, retry_after=retry_after)
    error = found.value
    assert (type(error), error.status, error.message) == (kind, status, "later")
    assert error.headers == {"Retry-After": str(seconds)}


UNREADABLE = [
    pytest.param(b"", id="nothing"),
    pytest.param(b"<html>", id="no JSON"),
    pytest.param(b"[]", id="a list"),
    pytest.param(b"[" * 100_000, id="deep nesting"),
    pytest.param(b"\xff", id="no UTF-8"),
    pytest.param(response(), id="no result"),
    pytest.param(response(result=[]), id="a list as result"),
    pytest.param(response(result={}), id="an empty result"),
    pytest.param(response(result={"task": {"id": 3}}), id="a field of another type"),
    pytest.param(response(result={"task": {}, "message": {}}), id="two payloads"),
    pytest.param(response(result={"message": {"metadata": {"a": float("-inf")}}}), id="infinity"),
    pytest.param(b'{"result": {"message": {"metadata": {"a": 1e999}}}}', id="a number above the largest"),
    pytest.param(response(result={"task": {"status": {"state": "\ud800"}}}), id="half a character"),
    pytest.param(response(error={"code": -32001, "message": "\ud800"}), id="half a character in an error"),
    pytest.param(response(result={"task": {"history": [{"parts": [{}]}]}}), id="a part without content"),
    pytest.param(response(result={"task": {"artifacts": [{"parts": [{"new": 1}]}]}}), id="a part of a later version"),
    pytest.param(response(result={"task": {"status": {"message": {"parts": [{}]}}}}), id="a status without content"),
    pytest.param(response(result={"message": {"parts": [{"text": "x"}, {}]}}), id="a message without content"),
    pytest.param(response(result={"kind": "task", "id": "t"}), id="an answer of 0.3"),
]


@pytest.mark.parametrize("body", UNREADABLE)
def test_unreadable_answer_is_an_invalid_agent_response(body: bytes) -> None:
    for decode in (lambda: decode_response(Operation.SEND, body), lambda: decode_event(body)):
        with pytest.raises(errors.InvalidAgentResponseError):
            decode()


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        pytest.param({"code": -32000, "message": "x"}, errors.InternalError, "x", id="unknown code"),
        pytest.param({"code": True}, errors.InternalError, "Internal error", id="a code of another type"),
        pytest.param({"code": -32001, "message": 3}, errors.TaskNotFoundError, "Task not found", id="no text"),
        pytest.param({"code": -32001, "message": "x" * 9000}, errors.TaskNotFoundError, "x" * 4096, id="a long text"),
        pytest.param(
            {"code": -32602, "message": "x", "data": [{}, 3]}, errors.InvalidParamsError, "x", id="odd details"
        ),
    ],
)
def test_malformed_error_is_still_an_error(error: Any, kind: type[errors.A2AError], text: str) -> None:
    with pytest.raises(errors.A2AError) as found:
        decode_response(Operation.GET, response(error=error))
    assert (type(found.value), found.value.message) == (kind, text)


@pytest.mark.parametrize(("dialect", "word"), [(V03, "unknown"), (V01, "unknown")], ids=["0.3", "0.1"])
def test_state_of_a_later_version_is_unknown(dialect: Dialect, word: str) -> None:
    task = decode_response(Operation.GET, response(result={"id": "t", "status": {"state": "TASK_STATE_PAUSED"}}))
    assert dialect.writes[Operation.GET](task, None)["status"]["state"] == word


leaves = st.one_of(values, st.integers(-5, 2**40), st.floats(), st.sampled_from(["\ud800", "YQ==", "ROLE_USER"]))
loose_parts = st.dictionaries(
    st.sampled_from(["text", "raw", "url", "data", "metadata", "filename"]), leaves, max_size=2
)
loose_messages = st.fixed_dictionaries(
    {"parts": st.lists(loose_parts, max_size=2)}, optional={"messageId": leaves, "role": leaves, "metadata": leaves}
)
loose_statuses = st.fixed_dictionaries({}, optional={"state": leaves, "message": loose_messages, "timestamp": leaves})
loose_tasks = st.fixed_dictionaries(
    {},
    optional={
        "id": leaves,
        "status": loose_statuses,
        "history": st.lists(loose_messages, max_size=1),
        "artifacts": st.lists(loose_messages, max_size=1),
        "metadata": leaves,
    },
)
loose_events = st.one_of(
    leaves,
    loose_tasks.map(lambda found: {"task": found}),
    loose_messages.map(lambda found: {"message": found}),
    loose_statuses.map(lambda found: {"statusUpdate": {"status": found}}),
    loose_messages.map(lambda found: {"artifactUpdate": {"artifact": found}}),
)


@OLDER
@MANY
@given(result=loose_events, error=st.none() | leaves | st.fixed_dictionaries({"code": leaves, "message": leaves}))
def test_any_answer_is_an_event_or_an_error(dialect: Dialect, result: Any, error: Any) -> None:
    body = response(result=result) if error is None else response(error=error)
    try:
        shown: Any = list(dialect.teller()(decode_event(body)))
    except errors.A2AError as refused:
        shown = fault(dialect, refused)
    assert json.dumps(shown, ensure_ascii=False, allow_nan=False).encode()


def test_deletion_has_no_result() -> None:
    assert decode_response(Operation.DELETE_PUSH, response(result=None)) is None


@pytest.mark.parametrize(
    ("metadata", "error"),
    [
        pytest.param({"text": 'a, b: [c] {d} \\" ' * 100_000}, None, id="a long text"),
        pytest.param({"values": [1] * (MAX_VALUES // 10)}, None, id="many values"),
        pytest.param({"values": [1] * (MAX_VALUES + 1)}, TOO_MANY, id="too many values"),
        pytest.param({"values": [[]] * MAX_VALUES}, TOO_MANY, id="too many lists"),
    ],
)
def test_number_of_values_is_limited(metadata: dict[str, Any], error: str | None) -> None:
    body = json.dumps({"result": {"id": "1", "contextId": "2", "status": {}, "metadata": metadata}}).encode()
    refused = pytest.raises(errors.InvalidAgentResponseError, match=error) if error else nullcontext()
    with refused:
        assert decode_response(Operation.GET, body).id == "1"


def test_response_in_another_encoding_is_unreadable() -> None:
    body = json.dumps({"result": {"id": "1", "contextId": "2", "status": {}}}).encode("utf-16")
    with pytest.raises(errors.InvalidAgentResponseError, match="did not answer in the format"):
        decode_response(Operation.GET, body)
