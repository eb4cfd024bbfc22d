"""Validation of required fields, which must match the SDK's own check, and detection of free-form JSON."""

from typing import Any

import pytest
from a2a.types import a2a_pb2 as a2a
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import validate_proto_required_fields
from google.protobuf.json_format import ParseDict
from google.protobuf.message import Message as Proto

from fleetwright_a2a.proto_validation import check_complete, holds_json

_SAID = {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "x"}]}
_HOOK = {"taskPushNotificationConfig": {"authentication": {"credentials": "c"}}}
_REQUESTS = [
    pytest.param(a2a.SendMessageRequest, {}, id="nothing is said"),
    pytest.param(a2a.SendMessageRequest, {"message": {}}, id="an empty message"),
    pytest.param(a2a.SendMessageRequest, {"message": _SAID}, id="all that must be there"),
    pytest.param(a2a.SendMessageRequest, {"message": {**_SAID, "parts": []}}, id="a message without parts"),
    pytest.param(a2a.SendMessageRequest, {"message": _SAID, "configuration": _HOOK}, id="a hook without its address"),
    pytest.param(a2a.SendMessageRequest, {"message": {**_SAID, "metadata": {"a": {}}}}, id="with free JSON"),
    pytest.param(a2a.GetTaskRequest, {}, id="a task without a name"),
    pytest.param(a2a.TaskPushNotificationConfig, {"id": "c"}, id="a configuration of no task"),
    pytest.param(a2a.ListTasksRequest, {}, id="a list needs nothing"),
]


def _complaint(check: Any, request: Proto) -> Any:
    try:
        check(request)
    except InvalidParamsError as error:
        return error.message, error.data
    return None


@pytest.mark.parametrize(("kind", "document"), _REQUESTS)
def test_check_complete_agrees_with_the_sdk(kind: type[Proto], document: dict[str, Any]) -> None:
    request = ParseDict(document, kind())
    assert _complaint(check_complete, request) == _complaint(validate_proto_required_fields, request)


@pytest.mark.parametrize(
    ("event", "holds"),
    [
        pytest.param(a2a.Message(message_id="m", parts=[a2a.Part(text="x")]), False, id="a text"),
        pytest.param(ParseDict({"metadata": {"a": 1}}, a2a.Message()), True, id="metadata"),
        pytest.param(ParseDict({"parts": [{"text": "x"}, {"data": 7}]}, a2a.Message()), True, id="a value as a part"),
        pytest.param(
            ParseDict({"status": {"timestamp": "2026-01-01T00:00:00Z"}}, a2a.Task()), False, id="a time is not free"
        ),
        pytest.param(
            ParseDict({"artifact": {"parts": [{"metadata": {}, "text": "x"}]}}, a2a.TaskArtifactUpdateEvent()),
            True,
            id="metadata of a part of an artifact, however empty",
        ),
    ],
)
def test_holds_json_finds_json_values_anywhere(event: Proto, *, holds: bool) -> None:
    assert holds_json(event) is holds
