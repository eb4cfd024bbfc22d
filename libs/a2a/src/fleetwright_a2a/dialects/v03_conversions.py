"""Converts the params and results of A2A 0.3 with the models and conversions of the SDK.

This module adds the flag `final` of stream events, the names of invalid fields in errors, a default id for push
configurations, and the check of parts without `kind`, which the SDK's models take for texts.
"""

from collections.abc import Mapping
from typing import Any, Final

from a2a.compat.v0_3 import conversions as sdk
from a2a.compat.v0_3 import types as v03
from a2a.types.a2a_pb2 import Task, TaskPushNotificationConfig, TaskStatusUpdateEvent
from a2a.utils.errors import InvalidParamsError
from a2a.utils.proto_utils import to_stream_response
from pydantic import BaseModel

from fleetwright_a2a.dialects.dialect import Operation, Params, Read, Write
from fleetwright_a2a.dialects.params import reader
from fleetwright_a2a.dialects.v10 import nothing
from fleetwright_a2a.task_events import Event, is_last

_KINDS: Final = ("text", "file", "data")


def _send(params: v03.MessageSendParams) -> Any:
    return sdk.to_core_send_message_request(v03.SendMessageRequest(id="", params=params))


_read_send = reader(v03.MessageSendParams, _send)


def _checked_send(params: Params) -> Any:
    """Read the params of a message. Raises: InvalidParamsError: also for a part whose kind is not clear."""
    message = params.get("message")
    parts = message.get("parts") if isinstance(message, dict) else None
    for index, part in enumerate(parts if isinstance(parts, list) else ()):
        if isinstance(part, dict) and "kind" not in part and not is_clear(part):
            raise InvalidParamsError(f"Invalid params: check message.parts.{index}.kind")
    return _read_send(params)


def is_clear(part: Params) -> bool:
    """Return whether a part without `kind` has one content, which is that of its `type` if it has a type."""
    contents = [kind for kind in _KINDS if kind in part]
    return len(contents) == 1 and part.get("type", contents[0]) == contents[0]


def _get(params: v03.TaskQueryParams) -> Any:
    return sdk.to_core_get_task_request(v03.GetTaskRequest(id="", params=params))


def _cancel(params: v03.TaskIdParams) -> Any:
    return sdk.to_core_cancel_task_request(v03.CancelTaskRequest(id="", params=params))


def _subscribe(params: v03.TaskIdParams) -> Any:
    return sdk.to_core_subscribe_to_task_request(v03.TaskResubscriptionRequest(id="", params=params))


def _set_push(params: v03.TaskPushNotificationConfig) -> Any:
    request = v03.SetTaskPushNotificationConfigRequest(id="", params=params)
    config: TaskPushNotificationConfig = sdk.to_core_create_task_push_notification_config_request(request)
    config.id = config.id or config.task_id
    return config


class PushQuery(v03.GetTaskPushNotificationConfigParams):
    """The params of `tasks/pushNotificationConfig/get`; clients of 0.2 send the task id only."""

    push_notification_config_id: str = ""


def _get_push(params: PushQuery) -> Any:
    params.push_notification_config_id = params.push_notification_config_id or params.id
    request = v03.GetTaskPushNotificationConfigRequest(id="", params=params)
    return sdk.to_core_get_task_push_notification_config_request(request)


def _list_push(params: v03.ListTaskPushNotificationConfigParams) -> Any:
    request = v03.ListTaskPushNotificationConfigRequest(id="", params=params)
    return sdk.to_core_list_task_push_notification_config_request(request)


def _delete_push(params: v03.DeleteTaskPushNotificationConfigParams) -> Any:
    request = v03.DeleteTaskPushNotificationConfigRequest(id="", params=params)
    return sdk.to_core_delete_task_push_notification_config_request(request)


def task_model(answer: Any) -> v03.Task:
    return sdk.to_compat_task(answer)


def sent_model(answer: Any) -> v03.Task | v03.Message:
    return sdk.to_compat_task(answer) if isinstance(answer, Task) else sdk.to_compat_message(answer)


def push_model(answer: Any) -> v03.TaskPushNotificationConfig:
    return sdk.to_compat_task_push_notification_config(answer)


def _dumped(model: BaseModel) -> Params:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def task(answer: Any, _: Any = None) -> Params:
    return _dumped(task_model(answer))


def _sent(answer: Any, _: Any) -> Params:
    return _dumped(sent_model(answer))


def _push(answer: Any, _: Any) -> Params:
    return _dumped(push_model(answer))


def _pushes(answer: Any, _: Any) -> list[Params]:
    return [_dumped(push_model(config)) for config in answer.configs]


def _card(answer: Any, _: Any) -> Params:
    return _dumped(sdk.to_compat_agent_card(answer))


def event_model(event: Task | Event) -> Any:
    """Return an event as a model of the SDK, with `final` set if the stream ends with it."""
    result = sdk.to_compat_stream_response(to_stream_response(event), "").result
    if isinstance(event, TaskStatusUpdateEvent) and isinstance(result, v03.TaskStatusUpdateEvent):
        result.final = is_last(event)
    return result


def told(event: Task | Event) -> tuple[Params]:
    return (_dumped(event_model(event)),)


READS: Final[Mapping[Operation, Read]] = {
    Operation.SEND: _checked_send,
    Operation.STREAM: _checked_send,
    Operation.GET: reader(v03.TaskQueryParams, _get),
    Operation.CANCEL: reader(v03.TaskIdParams, _cancel),
    Operation.SUBSCRIBE: reader(v03.TaskIdParams, _subscribe),
    Operation.SET_PUSH: reader(v03.TaskPushNotificationConfig, _set_push),
    Operation.GET_PUSH: reader(PushQuery, _get_push),
    Operation.LIST_PUSH: reader(v03.ListTaskPushNotificationConfigParams, _list_push),
    Operation.DELETE_PUSH: reader(v03.DeleteTaskPushNotificationConfigParams, _delete_push),
    Operation.EXTENDED_CARD: lambda _: sdk.to_core_get_extended_agent_card_request(
        v03.GetAuthenticatedExtendedCardRequest(id="")
    ),
}
WRITES: Final[Mapping[Operation, Write]] = {
    Operation.SEND: _sent,
    Operation.GET: task,
    Operation.CANCEL: task,
    Operation.SET_PUSH: _push,
    Operation.GET_PUSH: _push,
    Operation.LIST_PUSH: _pushes,
    Operation.DELETE_PUSH: nothing,
    Operation.EXTENDED_CARD: _card,
}
