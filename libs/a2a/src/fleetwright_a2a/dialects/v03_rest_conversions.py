"""Converts the bodies of A2A 0.3 over HTTP+JSON, in the JSON format of 0.3's own protocol buffers."""

from collections.abc import Mapping
from typing import Any, Final

from a2a.compat.v0_3 import a2a_v0_3_pb2 as pb
from a2a.compat.v0_3.proto_utils import FromProto, ToProto
from a2a.types.a2a_pb2 import Task
from a2a.utils.errors import InvalidParamsError
from google.protobuf.json_format import MessageToDict
from google.protobuf.message import Message as Proto

from fleetwright_a2a.dialects import v03_conversions as v03
from fleetwright_a2a.dialects.dialect import Operation, Params, Read, Write
from fleetwright_a2a.dialects.v03_conversions import event_model, is_clear, push_model, sent_model, task_model
from fleetwright_a2a.dialects.v10 import reader
from fleetwright_a2a.task_events import Event

_as_message = reader(pb.SendMessageRequest)
_as_push = reader(pb.CreateTaskPushNotificationConfigRequest)


def _translated(model: Any) -> Params:
    return dict(model.model_dump(mode="json", by_alias=True, exclude_none=True))


def _send(params: Params) -> Any:
    _check_types(params.get("message"))
    given = _as_message(params)
    if not given.HasField("request"):
        raise InvalidParamsError("Invalid params: check message")
    return v03.READS[Operation.SEND](_translated(_converted(FromProto.message_send_params, given)))


def _check_types(message: Any) -> None:
    """Refuse a part whose content is not that of its `type`, which clients of other protocols send.

    Raises: InvalidParamsError.
    """
    for name in ("content", "parts"):
        parts = message.get(name) if isinstance(message, dict) else None
        for index, part in enumerate(parts if isinstance(parts, list) else ()):
            if isinstance(part, dict) and "type" in part and "kind" not in part and not is_clear(part):
                raise InvalidParamsError(f"Invalid params: check message.{name}.{index}.type")


def _set_push(params: Params) -> Any:
    """Accept the configuration itself (0.3) or a request that contains it (as the Python SDK sends it)."""
    task_id = params["taskId"]
    given = _as_push({"parent": f"tasks/{task_id}", "config": params.get("config", params)})
    config = _translated(_converted(FromProto.task_push_notification_config_request, given))
    return v03.READS[Operation.SET_PUSH]({**config, "taskId": task_id})


def _converted(convert: Any, given: Proto) -> Any:
    try:
        return convert(given)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise InvalidParamsError("Invalid params: check the shape of the body") from None


def _of_push(operation: Operation) -> Read:
    """Return a reader for the ids in the path: `id` means the configuration there, but the task in 0.3's params."""

    def read(params: Params) -> Any:
        names = {"id": params["taskId"], "pushNotificationConfigId": params.get("id", "")}
        return v03.READS[operation](names)

    return read


def _task(answer: Any, _: Any) -> Params:
    return MessageToDict(ToProto.task(task_model(answer)))


def _sent(answer: Any, _: Any) -> Params:
    return MessageToDict(ToProto.task_or_message(sent_model(answer)))


def _push(answer: Any, _: Any) -> Params:
    return MessageToDict(ToProto.task_push_notification_config(push_model(answer)))


def _pushes(answer: Any, _: Any) -> Params:
    configs = [ToProto.task_push_notification_config(push_model(config)) for config in answer.configs]
    return MessageToDict(pb.ListTaskPushNotificationConfigResponse(configs=configs))


def told(event: Task | Event) -> tuple[Params]:
    return (MessageToDict(ToProto.stream_response(event_model(event))),)


READS: Final[Mapping[Operation, Read]] = {
    **v03.READS,
    Operation.SEND: _send,
    Operation.STREAM: _send,
    Operation.SET_PUSH: _set_push,
    Operation.GET_PUSH: _of_push(Operation.GET_PUSH),
    Operation.LIST_PUSH: _of_push(Operation.LIST_PUSH),
    Operation.DELETE_PUSH: _of_push(Operation.DELETE_PUSH),
}
WRITES: Final[Mapping[Operation, Write]] = {
    **v03.WRITES,
    Operation.SEND: _sent,
    Operation.GET: _task,
    Operation.CANCEL: _task,
    Operation.SET_PUSH: _push,
    Operation.GET_PUSH: _push,
    Operation.LIST_PUSH: _pushes,
}
