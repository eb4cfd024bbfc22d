"""A2A 0.1: only `tasks/*` methods, parts with a `type`, task ids chosen by callers, and sessions instead of contexts.

A session is a context, and an artifact has an index instead of an id. A state that does not exist in 0.1 is reported as
the nearest state that exists. The models of requests are in `v01_requests`.
"""

import base64
from collections.abc import Mapping
from typing import Any, Final

from a2a.types.a2a_pb2 import (
    Artifact,
    Message,
    Part,
    Role,
    Task,
    TaskArtifactUpdateEvent,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from a2a.utils import errors
from google.protobuf.json_format import MessageToDict

from fleetwright_a2a.dialects import v01_requests as reads
from fleetwright_a2a.dialects.dialect import Dialect, Operation, Params
from fleetwright_a2a.errors import NoStreams, NotTranslated
from fleetwright_a2a.extensions import CHOSEN_ID, DIRECT_REPLY
from fleetwright_a2a.task_events import INTERRUPTED, Event, is_last, rests

STATES: Final[Mapping[int, str]] = {
    TaskState.TASK_STATE_SUBMITTED: "submitted",
    TaskState.TASK_STATE_WORKING: "working",
    TaskState.TASK_STATE_INPUT_REQUIRED: "input-required",
    TaskState.TASK_STATE_AUTH_REQUIRED: "input-required",
    TaskState.TASK_STATE_COMPLETED: "completed",
    TaskState.TASK_STATE_CANCELED: "canceled",
    TaskState.TASK_STATE_FAILED: "failed",
    TaskState.TASK_STATE_REJECTED: "failed",
    TaskState.TASK_STATE_UNSPECIFIED: "unknown",
}
RATE_LIMIT_EXCEEDED: Final = -32010
RESOURCE_UNAVAILABLE: Final = -32011
CODES: Final[dict[type[errors.A2AError], int]] = {
    errors.TaskNotFoundError: -32001,
    errors.TaskNotCancelableError: -32002,
    errors.PushNotificationNotSupportedError: -32003,
    errors.ContentTypeNotSupportedError: -32005,
    # 0.1 has its own code for a message that the state of the task does not allow: InvalidTaskState.
    errors.UnsupportedOperationError: -32009,
    NoStreams: -32004,
    NotTranslated: -32004,
    errors.ExtensionSupportRequiredError: -32004,
    errors.InvalidParamsError: -32602,
    errors.InvalidRequestError: -32600,
    errors.MethodNotFoundError: -32601,
    errors.JSONParseError: -32700,
}


def part(content: Part) -> Params:
    if content.HasField("text"):
        return _with_metadata({"type": "text", "text": content.text}, content)
    if content.HasField("data"):
        data: Any = MessageToDict(content.data)
        return _with_metadata({"type": "data", "data": data if isinstance(data, dict) else {"value": data}}, content)
    named = {"name": content.filename, "mimeType": content.media_type}
    file = {key: value for key, value in named.items() if value}
    if content.HasField("url"):
        file["uri"] = content.url
    else:
        file["bytes"] = base64.b64encode(content.raw).decode()
    return _with_metadata({"type": "file", "file": file}, content)


def message(said: Message) -> Params:
    role = "user" if said.role == Role.ROLE_USER else "agent"
    return _with_metadata({"role": role, "parts": [part(p) for p in said.parts]}, said)


def status(now: TaskStatus) -> Params:
    shown: Params = {"state": STATES.get(now.state, "unknown")}
    if now.HasField("message"):
        shown["message"] = message(now.message)
    if now.HasField("timestamp"):
        shown["timestamp"] = now.timestamp.ToJsonString()
    return shown


def artifact(made: Artifact, index: int) -> Params:
    shown: Params = {"name": made.name} if made.name else {}
    if made.description:
        shown["description"] = made.description
    return _with_metadata({**shown, "parts": [part(p) for p in made.parts], "index": index}, made)


def task(whole: Task, _: Any = None) -> Params:
    """Return a task.

    While the task waits for its caller, the status contains the question, and the artifacts are left out.
    """
    shown: Params = {"id": whole.id, "sessionId": whole.context_id, "status": status(whole.status)}
    if whole.artifacts and whole.status.state not in INTERRUPTED:
        shown["artifacts"] = [artifact(made, index) for index, made in enumerate(whole.artifacts)]
    shown["history"] = [message(said) for said in whole.history]
    return _with_metadata(shown, whole)


def pushed(whole: Task) -> Params:
    """Return the body of a push notification: the task without its history."""
    return task(whole) | {"history": []}


def _with_metadata(shown: Params, holder: Any) -> Params:
    metadata = MessageToDict(holder.metadata) if holder.HasField("metadata") else {}
    for name in (CHOSEN_ID, DIRECT_REPLY):
        metadata.pop(name, None)
    return {**shown, "metadata": metadata} if metadata else shown


class StreamSerializer:
    """The converter of one stream; artifacts are numbered in the order of their first event."""

    def __init__(self) -> None:
        self._places: dict[str, int] = {}

    def __call__(self, event: Task | Event) -> list[Params]:
        if isinstance(event, Task):
            return self._snapshot(event)
        if isinstance(event, TaskStatusUpdateEvent):
            return [self._status(event.task_id, event.status, final=is_last(event))]
        if isinstance(event, TaskArtifactUpdateEvent):
            shown = artifact(event.artifact, self._place(event.artifact)) | {"append": event.append}
            return [{"id": event.task_id, "artifact": {**shown, **({"lastChunk": True} if event.last_chunk else {})}}]
        return []

    def _snapshot(self, whole: Task) -> list[Params]:
        """Return the final events of a task that has ended or waits.

        A running task has none, because its events follow.
        """
        artifacts = [artifact(made, self._place(made)) | {"append": False} for made in whole.artifacts]
        if not rests(whole):
            return []
        return [
            *({"id": whole.id, "artifact": each} for each in artifacts),
            self._status(whole.id, whole.status, final=True),
        ]

    def _status(self, task_id: str, now: TaskStatus, *, final: bool) -> Params:
        return {"id": task_id, "status": status(now), "final": final}

    def _place(self, made: Artifact) -> int:
        return self._places.setdefault(made.artifact_id, len(self._places))


def push(config: TaskPushNotificationConfig, _: Any = None) -> Params:
    shown: Params = {"url": config.url}
    if config.token:
        shown["token"] = config.token
    if config.HasField("authentication"):
        given = config.authentication
        shown["authentication"] = {"schemes": [given.scheme] if given.scheme else []}
        if given.credentials:
            shown["authentication"]["credentials"] = given.credentials
    return {"id": config.task_id, "pushNotificationConfig": shown}


V01: Final = Dialect(
    version="0.1",
    methods={
        "tasks/send": Operation.SEND,
        "tasks/sendSubscribe": Operation.STREAM,
        "tasks/get": Operation.GET,
        "tasks/cancel": Operation.CANCEL,
        "tasks/resubscribe": Operation.SUBSCRIBE,
        "tasks/pushNotification/set": Operation.SET_PUSH,
        "tasks/pushNotification/get": Operation.GET_PUSH,
    },
    reads={
        Operation.SEND: reads.send,
        Operation.STREAM: reads.send,
        Operation.GET: reads.get,
        Operation.CANCEL: reads.cancel,
        Operation.SUBSCRIBE: reads.subscribe,
        Operation.SET_PUSH: reads.set_push,
        Operation.GET_PUSH: reads.get_push,
    },
    writes={
        Operation.SEND: task,
        Operation.GET: task,
        Operation.CANCEL: task,
        Operation.SET_PUSH: push,
        Operation.GET_PUSH: push,
    },
    teller=StreamSerializer,
    codes=CODES,
    unavailable=RESOURCE_UNAVAILABLE,
    limited=RATE_LIMIT_EXCEEDED,
    misplaced={"contextId": "is called sessionId in this dialect", "taskId": "is called id in this dialect"},
    words={
        "message.contextId": "sessionId",
        "message.taskId": "id",
        "contextId": "sessionId",
        "send the message without taskId to continue in its context": "send another id with its sessionId to continue",
        "ROLE_USER": "user",
        "mediaType": "mimeType",
        "GetTask": "tasks/get",
    },
    chooses_ids=True,
    tasks_only=True,
    ends_with_final=True,
)
