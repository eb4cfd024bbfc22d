"""Random tasks, streams, messages and errors, which the gateway translates between A2A 1.0 and A2A 0.3 and 0.1."""

import base64
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest
from a2a.compat.v0_3 import conversions as sdk
from a2a.compat.v0_3 import types as v03
from a2a.types.a2a_pb2 import Message, Task, TaskArtifactUpdateEvent, TaskStatusUpdateEvent
from google.protobuf.json_format import ParseDict
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tests.gateway.expected_v01 import RESTING, STATES, v01_events, v01_task
from tests.gateway.translated_agent import Agent
from tests.support.examples import count_examples

from fleetwright_a2a.extensions import CHOSEN_ID

MANY = settings(
    max_examples=count_examples(100), deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
OF_A_STATE = settings(MANY, max_examples=count_examples(15))
SAME = {code: code for code in (-32001, -32002, -32003, -32005, -32600, -32601, -32602, -32700)}
CODES = {
    "0.3": {**SAME, -32004: -32004, -32006: -32006, -32007: -32007, -32008: -32004},
    "0.1": {**SAME, -32004: -32009, -32008: -32004},
}
"""The error codes of the older versions by those of A2A 1.0. Other errors become internal errors (-32603)."""
UNAVAILABLE = {("0.3", 429): -32603, ("0.3", 503): -32603, ("0.1", 429): -32010, ("0.1", 503): -32011}
FAILED = "The agent failed to handle this request"
"""The text of an exception that the translator did not expect."""

TEXT, NAME = st.text(max_size=6), st.text(min_size=1, max_size=6)
JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), TEXT, st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)
    ),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
OBJECT = st.dictionaries(TEXT, JSON, min_size=1, max_size=2)
BYTES = st.binary(max_size=4).map(lambda data: base64.b64encode(data).decode())
TIMES = st.datetimes(datetime(1970, 1, 1)).map(lambda time: f"{time.isoformat(timespec='seconds')}Z")  # noqa: DTZ001


def fields(optional: dict[str, Any] | None = None, /, **required: Any) -> Any:
    """Draw an object that may also have metadata and a field of a later version."""
    metadata = OBJECT | st.dictionaries(TEXT | st.just(CHOSEN_ID), JSON, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        required, optional={**(optional or {}), "metadata": metadata, "fieldOfALaterVersion": JSON}
    )


FILE = {"filename": NAME, "mediaType": NAME}
PARTS = st.lists(
    fields(text=TEXT) | fields(FILE, raw=BYTES) | fields(FILE, url=NAME) | fields(data=JSON), min_size=1, max_size=3
)
MESSAGE = fields(
    {"contextId": NAME, "taskId": NAME, "extensions": st.lists(NAME, min_size=1, max_size=2)},
    messageId=NAME,
    role=st.sampled_from(["ROLE_USER", "ROLE_AGENT"]),
    parts=PARTS,
)
STATUS = fields({"message": MESSAGE, "timestamp": TIMES}, state=st.sampled_from(sorted(STATES))).map(
    lambda status: {name: value for name, value in status.items() if name != "metadata"}
)
ARTIFACT = fields({"name": NAME, "description": NAME}, artifactId=st.sampled_from("abc"), parts=PARTS)
TASK = fields(
    {"artifacts": st.lists(ARTIFACT, min_size=1, max_size=2), "history": st.lists(MESSAGE, min_size=1, max_size=2)},
    id=NAME,
    contextId=NAME,
    status=STATUS,
)
PIECE = fields({"append": st.booleans(), "lastChunk": st.booleans()}, taskId=NAME, contextId=NAME, artifact=ARTIFACT)
EVENT = st.one_of(
    st.fixed_dictionaries({"task": TASK}),
    st.fixed_dictionaries({"message": MESSAGE}),
    st.fixed_dictionaries({"statusUpdate": fields(taskId=NAME, contextId=NAME, status=STATUS)}),
    st.fixed_dictionaries({"artifactUpdate": PIECE}),
)


REVERSE: dict[str, tuple[Any, Any, Any]] = {
    "task": (Task, v03.Task, sdk.to_core_task),
    "message": (Message, v03.Message, sdk.to_core_message),
    "statusUpdate": (TaskStatusUpdateEvent, v03.TaskStatusUpdateEvent, sdk.to_core_task_status_update_event),
    "artifactUpdate": (TaskArtifactUpdateEvent, v03.TaskArtifactUpdateEvent, sdk.to_core_task_artifact_update_event),
}


def check_v03(shown: Any, kind: str, original: Any) -> None:
    """Check that a result of A2A 0.3 means the same object of A2A 1.0 as the original."""
    model, old_model, convert = REVERSE[kind]
    assert convert(old_model.model_validate(shown)) == ParseDict(original, model(), ignore_unknown_fields=True)
    if "status" in original:
        assert shown["status"]["state"] == STATES[original["status"]["state"]][0]
    if kind == "statusUpdate":
        assert shown["final"] is (original["status"]["state"] in RESTING)


@pytest.mark.parametrize("state", STATES)
@OF_A_STATE
@given(task=TASK)
def test_tasks_keep_their_content_in_older_versions(state: str, task: Any) -> None:
    task["status"]["state"] = state
    agent = Agent({"result": task})
    _, (shown,) = agent.call("0.3", "tasks/get", {"id": task["id"]})
    check_v03(shown, "task", task)
    assert agent.call("0.1", "tasks/get", {"id": task["id"]}) == (200, [v01_task(task)])


V03_MESSAGE = {"messageId": "m", "role": "user", "parts": [{"kind": "text", "text": "x"}]}
V01_MESSAGE = {"id": "mine", "message": {"role": "user", "parts": [{"type": "text", "text": "x"}]}}


@pytest.mark.parametrize("state", STATES)
@OF_A_STATE
@given(events=st.lists(EVENT, max_size=5))
def test_streams_keep_events_and_order_in_older_versions(state: str, events: list[Any]) -> None:
    events = [*events, {"statusUpdate": {"taskId": "t", "contextId": "c", "status": {"state": state}}}]
    agent = Agent(*({"result": event} for event in events))
    _, shown = agent.call("0.3", "message/stream", {"message": V03_MESSAGE})
    for each, event in zip(shown, events, strict=True):
        ((kind, original),) = event.items()
        check_v03(each, kind, original)
    _, shown = agent.call("0.1", "tasks/sendSubscribe", V01_MESSAGE)
    assert shown == list(v01_events(events, "mine"))


NAMES = st.lists(NAME, min_size=1, max_size=2)
FILES = st.one_of(
    st.fixed_dictionaries({"bytes": BYTES}, optional={"name": NAME, "mimeType": NAME}),
    st.fixed_dictionaries({"uri": NAME}, optional={"name": NAME, "mimeType": NAME}),
)


def older_message(key: str, **more: Any) -> Any:
    """Draw a message of an older version. Args: `key` is the field with the kind of a part."""
    contents: dict[str, Any] = {"text": TEXT, "file": FILES, "data": st.dictionaries(TEXT, JSON, max_size=2)}
    parts = [
        st.fixed_dictionaries({key: st.just(kind), kind: content}, optional={"metadata": OBJECT})
        for kind, content in contents.items()
    ]
    required = {"role": st.sampled_from(["user", "agent"]), "parts": st.lists(st.one_of(parts), min_size=1, max_size=3)}
    return st.fixed_dictionaries(required, optional={"metadata": OBJECT, **more})


V01_REQUEST = st.fixed_dictionaries(
    {"id": NAME, "message": older_message("type")},
    optional={"sessionId": NAME, "historyLength": st.integers(0, 9), "acceptedOutputModes": NAMES, "metadata": OBJECT},
)
V03_REQUEST = st.builds(
    lambda message, message_id: {**message, "kind": "message", "messageId": message_id},
    older_message("kind", contextId=NAME, taskId=NAME, extensions=NAMES, referenceTaskIds=NAMES),
    NAME,
)


def echo(call: Any) -> Any:
    """Answer with a task whose history is the message."""
    message = call["params"]["message"]
    status = {"state": "TASK_STATE_WORKING"}
    context_id = message.get("contextId", "c")
    return {"result": {"task": {"id": "t", "contextId": context_id, "status": status, "history": [message]}}}


@MANY
@given(params=V01_REQUEST)
def test_v01_messages_reach_the_agent_and_come_back(params: Any) -> None:
    agent = Agent(answer=echo)
    for request_id in ("a", "a", "b"):
        _, (shown,) = agent.call("0.1", "tasks/send", params, request_id=request_id)
        assert (shown["id"], shown["history"]) == (params["id"], [params["message"]])
        assert shown["sessionId"] == params.get("sessionId", shown["sessionId"]) != ""
    sent, again, other = (call["params"] for call in agent.received)
    assert sent == again, "a repeated request has the same ids"
    assert sent["message"]["messageId"] != other["message"]["messageId"]
    assert sent.get("metadata") == params.get("metadata")
    assert sent["configuration"]["historyLength"] == params.get("historyLength", 0)
    assert sent["configuration"].get("acceptedOutputModes") == params.get("acceptedOutputModes")


@MANY
@given(message=V03_REQUEST)
def test_v03_messages_reach_the_agent_and_come_back(message: Any) -> None:
    _, (shown,) = Agent(answer=echo).call("0.3", "message/send", {"message": message})
    assert shown["history"] == [message]


@MANY
@given(
    version=st.sampled_from(sorted(CODES)),
    error=st.fixed_dictionaries(
        {"code": st.sampled_from([*SAME, *range(-32011, -32000), -32603, 7]), "message": NAME}, optional={"data": JSON}
    ),
    status=st.sampled_from([200, 200, 200, 429, 503]),
)
def test_errors_have_the_code_of_the_older_version(version: str, error: Any, status: int) -> None:
    code = UNAVAILABLE.get((version, status), CODES[version].get(error["code"], -32603))
    shown = Agent({"error": error}, status=status).call(version, "tasks/get", {"id": "t"})
    assert shown == (status, [{"code": code, "message": error["message"]}])


ODD = st.sampled_from([None, True, -1, 2**40, float("inf"), "x", "\ud800", [], {}, [[]], {"x": [None]}])


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield the container and the key of every value in the document."""
    for key in list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ():
        yield value, key
        yield from places(value[key])


@st.composite
def malformed(draw: Any, documents: Any) -> Any:
    """Draw a document in which one value has another type, or one field has a name of a later version."""
    document = draw(documents)
    container, key = draw(st.sampled_from(list(places(document))))
    if isinstance(container, dict) and draw(st.booleans()):
        container["renamed"] = container.pop(key)
    else:
        container[key] = draw(ODD)
    return document


LATER = {"messageId": "m", "role": "ROLE_AGENT", "parts": [{"contentOfALaterVersion": "x"}]}


@MANY
@given(events=malformed(st.lists(EVENT, min_size=1, max_size=3)), task=malformed(TASK))
@example(events=[{"message": LATER}], task={"id": "t", "contextId": "c", "history": [LATER]})
def test_malformed_answers_are_errors_of_the_version(events: Any, task: Any) -> None:
    for version, method, params in (
        ("0.3", "message/stream", {"message": V03_MESSAGE}),
        ("0.1", "tasks/sendSubscribe", V01_MESSAGE),
    ):
        _, shown = Agent(*({"result": event} for event in events)).call(version, method, params)
        shown += Agent({"result": task}).call(version, "tasks/get", {"id": "t"})[1]
        for error in (each for each in shown if "code" in each):
            assert error["code"] in {-32006, -32603}
            assert not error["message"].startswith(FAILED), "the translator raised an exception"
