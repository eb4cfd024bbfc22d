"""Requests of A2A 0.1: their models, and the conversion to requests of A2A 1.0.

A2A 0.1 has no message ids. The task id therefore becomes the message id of the first message, so that the agent
recognises a repetition of this message. The agent gives later messages of the task other ids. Defaults of later
versions are not applied; in particular, the history is empty unless the client asks for it.
"""

from typing import Annotated, Any, Literal

from a2a.types.a2a_pb2 import (
    AuthenticationInfo,
    CancelTaskRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    Message,
    Part,
    Role,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskPushNotificationConfig,
)
from google.protobuf.json_format import ParseDict
from pydantic import Base64Bytes, BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from fleetwright_a2a.dialects.params import reader

Metadata = dict[str, Any] | None
TaskId = Annotated[str, Field(min_length=1)]


class _Shape(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, extra="ignore")


class TextPart(_Shape):
    type: Literal["text"]
    text: str
    metadata: Metadata = None


class File(_Shape):
    name: str | None = None
    mime_type: str | None = None
    bytes: Base64Bytes | None = None
    uri: str | None = None


class FilePart(_Shape):
    type: Literal["file"]
    file: File
    metadata: Metadata = None


class DataPart(_Shape):
    type: Literal["data"]
    data: dict[str, Any]
    metadata: Metadata = None


AnyPart = Annotated[TextPart | FilePart | DataPart, Field(discriminator="type")]


class MessageModel(_Shape):
    role: Literal["user", "agent"]
    parts: list[AnyPart] = Field(min_length=1)
    metadata: Metadata = None


class PushAuthentication(_Shape):
    schemes: list[str] = []
    credentials: str | None = None


class PushConfig(_Shape):
    url: str = Field(min_length=1)
    token: str | None = None
    authentication: PushAuthentication | None = None


class SendParams(_Shape):
    id: TaskId
    session_id: str | None = None
    message: MessageModel
    accepted_output_modes: list[str] | None = None
    push_notification: PushConfig | None = None
    history_length: int | None = Field(default=None, ge=0, lt=2**31)
    metadata: Metadata = None


class QueryParams(_Shape):
    id: TaskId
    history_length: int | None = Field(default=None, ge=0, lt=2**31)


class IdParams(_Shape):
    id: TaskId


class PushParams(_Shape):
    id: TaskId
    push_notification_config: PushConfig


def _part(given: TextPart | FilePart | DataPart) -> Part:
    part = Part()
    if isinstance(given, TextPart):
        part.text = given.text
    elif isinstance(given, DataPart):
        ParseDict(given.data, part.data.struct_value)
    elif given.file.uri:
        part.url = given.file.uri
    else:
        part.raw = given.file.bytes or b""
    if isinstance(given, FilePart):
        part.filename, part.media_type = given.file.name or "", given.file.mime_type or ""
    if given.metadata:
        ParseDict(given.metadata, part.metadata)
    return part


def _message(params: SendParams) -> Message:
    role = Role.ROLE_USER if params.message.role == "user" else Role.ROLE_AGENT
    message = Message(
        message_id=params.id,
        task_id=params.id,
        context_id=params.session_id or "",
        role=role,
        parts=[_part(given) for given in params.message.parts],
    )
    if params.message.metadata:
        ParseDict(params.message.metadata, message.metadata)
    return message


def _push(task_id: str, given: PushConfig) -> TaskPushNotificationConfig:
    """Convert the push configuration of a task.

    A task has at most one push configuration in A2A 0.1, so the id of the configuration is the id of the task.
    """
    config = TaskPushNotificationConfig(id=task_id, task_id=task_id, url=given.url, token=given.token or "")
    if given.authentication:
        schemes, credentials = given.authentication.schemes, given.authentication.credentials
        config.authentication.CopyFrom(
            AuthenticationInfo(scheme=schemes[0] if schemes else "", credentials=credentials or "")
        )
    return config


def _send(params: SendParams) -> SendMessageRequest:
    configuration = SendMessageConfiguration(history_length=params.history_length or 0)
    configuration.accepted_output_modes.extend(params.accepted_output_modes or ())
    if params.push_notification:
        configuration.task_push_notification_config.CopyFrom(_push(params.id, params.push_notification))
    request = SendMessageRequest(message=_message(params), configuration=configuration)
    if params.metadata:
        ParseDict(params.metadata, request.metadata)
    return request


send = reader(SendParams, _send)
get = reader(QueryParams, lambda params: GetTaskRequest(id=params.id, history_length=params.history_length or 0))
cancel = reader(IdParams, lambda params: CancelTaskRequest(id=params.id))
subscribe = reader(IdParams, lambda params: SubscribeToTaskRequest(id=params.id))
set_push = reader(PushParams, lambda params: _push(params.id, params.push_notification_config))
get_push = reader(IdParams, lambda params: GetTaskPushNotificationConfigRequest(id=params.id, task_id=params.id))
