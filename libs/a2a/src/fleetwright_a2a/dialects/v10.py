"""A2A 1.0, the version that the server uses internally, in ProtoJSON format."""

import re
from collections.abc import Callable
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTasksRequest,
    SendMessageRequest,
    SendMessageResponse,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)
from a2a.utils.errors import JSON_RPC_ERROR_CODE_MAP, InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from google.protobuf.json_format import MessageToDict, ParseError
from google.protobuf.message import Message as Proto

from fleetwright_a2a.dialects.dialect import Dialect, Operation, Params, Tell
from fleetwright_a2a.dialects.protojson import from_json
from fleetwright_a2a.errors import INTERNAL_ERROR
from fleetwright_a2a.task_events import Event

_FIELD: Final = re.compile(r"Failed to parse (\S+) field")
_CONTENTS: Final = ("text", "data", "url")
BESIDE_MESSAGE: Final = dict.fromkeys(("contextId", "taskId", "messageId"), "belongs in params.message")


def reader(model: type[Proto]) -> Callable[[Params], Any]:
    """Return a reader that ignores unknown fields, because a later version of the protocol may have them."""

    def read(params: Params) -> Proto:
        try:
            return from_json(params, model)
        except (ParseError, ValueError, TypeError, AttributeError, OverflowError) as error:
            raise InvalidParamsError(f"Invalid params: check {_place(str(error))}") from None

    return read


def _sending() -> Callable[[Params], Any]:
    """Return a reader that also accepts parts as `content: {$case, value}`, the JavaScript SDK's in-memory form."""
    read = reader(SendMessageRequest)

    def unwrapped(params: Params) -> Any:
        message = params.get("message")
        parts = message.get("parts") if isinstance(message, dict) else None
        if not isinstance(message, dict) or not isinstance(parts, list):
            return read(params)
        return read({**params, "message": {**message, "parts": [_unwrapped(part) for part in parts]}})

    return unwrapped


def _unwrapped(part: Any) -> Any:
    content = part.get("content") if isinstance(part, dict) else None
    if not isinstance(content, dict) or "value" not in content or content.get("$case") not in _CONTENTS:
        return part
    return {**{key: value for key, value in part.items() if key != "content"}, content["$case"]: content["value"]}


def _place(text: str) -> str:
    """Extract the path of the invalid field from the error text of the library."""
    return ".".join(_FIELD.findall(text)) or "the shape of params"


def written(answer: Any, _: Any) -> Any:
    return MessageToDict(answer)


def nothing(*_: Any) -> None:
    return None


def _sent(answer: Any, _: Any) -> Params:
    response = SendMessageResponse(task=answer) if isinstance(answer, Task) else SendMessageResponse(message=answer)
    return MessageToDict(response)


def _listed(answer: Any, request: Any) -> Params:
    # Section 3.1.4 of A2A 1.0: a page has all its fields, also empty ones, and artifacts only on request.
    page = MessageToDict(answer, always_print_fields_with_no_presence=True)
    if not request.include_artifacts:
        for task in page["tasks"]:
            task.pop("artifacts", None)
    return page


def _told(event: Task | Event) -> tuple[Params]:
    return (MessageToDict(to_stream_response(event)),)


def _teller() -> Tell:
    return _told


V10: Final = Dialect(
    version="1.0",
    methods={
        "SendMessage": Operation.SEND,
        "SendStreamingMessage": Operation.STREAM,
        "GetTask": Operation.GET,
        "ListTasks": Operation.LIST,
        "CancelTask": Operation.CANCEL,
        "SubscribeToTask": Operation.SUBSCRIBE,
        "CreateTaskPushNotificationConfig": Operation.SET_PUSH,
        "GetTaskPushNotificationConfig": Operation.GET_PUSH,
        "ListTaskPushNotificationConfigs": Operation.LIST_PUSH,
        "DeleteTaskPushNotificationConfig": Operation.DELETE_PUSH,
        "GetExtendedAgentCard": Operation.EXTENDED_CARD,
    },
    reads={
        Operation.SEND: _sending(),
        Operation.STREAM: _sending(),
        Operation.GET: reader(GetTaskRequest),
        Operation.LIST: reader(ListTasksRequest),
        Operation.CANCEL: reader(CancelTaskRequest),
        Operation.SUBSCRIBE: reader(SubscribeToTaskRequest),
        Operation.SET_PUSH: reader(TaskPushNotificationConfig),
        Operation.GET_PUSH: reader(GetTaskPushNotificationConfigRequest),
        Operation.LIST_PUSH: reader(ListTaskPushNotificationConfigsRequest),
        Operation.DELETE_PUSH: reader(DeleteTaskPushNotificationConfigRequest),
        Operation.EXTENDED_CARD: reader(GetExtendedAgentCardRequest),
    },
    writes={
        Operation.SEND: _sent,
        Operation.GET: written,
        Operation.LIST: _listed,
        Operation.CANCEL: written,
        Operation.SET_PUSH: written,
        Operation.GET_PUSH: written,
        Operation.LIST_PUSH: written,
        Operation.DELETE_PUSH: nothing,
        Operation.EXTENDED_CARD: written,
    },
    teller=_teller,
    codes=JSON_RPC_ERROR_CODE_MAP,
    unavailable=INTERNAL_ERROR,
    limited=INTERNAL_ERROR,
    misplaced=BESIDE_MESSAGE,
    details=True,
    faults_in_streams=False,
)
