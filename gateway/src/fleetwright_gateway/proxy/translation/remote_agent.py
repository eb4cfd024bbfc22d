"""The operations of an agent that supports only A2A 1.0, for callers of older versions.

A caller of A2A 0.1 chooses the id of its task. This module finds the agent's task by the caller's id, and shows the
caller's id in responses. Push notifications are refused, because the agent would send them in the format of A2A 1.0.
"""

import uuid
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Final, NoReturn, TypeVar

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskStatusUpdateEvent,
)
from a2a.utils.errors import (
    A2AError,
    InternalError,
    InvalidAgentResponseError,
    InvalidRequestError,
    MethodNotFoundError,
    PushNotificationNotSupportedError,
    UnsupportedOperationError,
)
from google.protobuf.message import Message as Proto

from fleetwright_a2a.bindings.calls import CALLED, DIALECT
from fleetwright_a2a.bindings.operation_handler import OperationHandler
from fleetwright_a2a.clock import Clock
from fleetwright_a2a.dialects.chosen_ids import SAID_BEFORE, ChosenId, is_too_late
from fleetwright_a2a.dialects.dialect import Operation
from fleetwright_a2a.dialects.v01 import V01
from fleetwright_a2a.errors import NotTranslated, ServiceUnavailable
from fleetwright_a2a.task_events import Event, rests
from fleetwright_gateway.proxy.translation.connection import AgentConnection

_PAGE: Final = 100
"""The number of tasks that are searched; the largest page that A2A 1.0 allows."""
_SMALL_PAGE: Final = 10
_MEDIA_TYPES: Final = {"text": "text/plain", "data": "application/json"}
"""The media types of A2A 1.0 for the words that callers of A2A 0.1 use."""
_NO_PUSH: Final = (
    "The gateway does not translate push notifications of this agent, which supports A2A 1.0 only; use a stream"
)
_NO_OPERATION: Final = "The gateway does not translate this operation for the agent; use A2A 1.0"
_NO_LIST: Final = "A2A 0.1 needs an agent that lists its tasks, which this agent does not; use A2A 0.3 or 1.0"

Shown = TypeVar("Shown", bound=Task | Event)
_TaskQuery = GetTaskRequest | CancelTaskRequest | SubscribeToTaskRequest


class RemoteAgent(OperationHandler):
    def __init__(self, connection: AgentConnection, *, caller: str, agent: str, clock: Clock) -> None:
        """Args: `caller` and `agent` separate the ids that callers choose."""
        self._connection = connection
        self._caller = caller
        self._agent = agent
        self._clock = clock
        self._found_before: dict[tuple[str, str], Task | None] = {}
        """The results of searches, by the chosen id and the conversation. This object lives for one request."""

    async def has_chosen_id(self, _: str, task_id: str) -> bool:
        """Return whether the caller has started a task of A2A 0.1 under this id."""
        try:
            return await self._found(self._chosen(task_id), "") is not None
        except A2AError as error:
            if self._connection.failure is not None or isinstance(error, ServiceUnavailable):
                raise
            return False  # An agent that cannot list its tasks has none of A2A 0.1.

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        _check_push(params)
        if not _chooses_ids(context):
            found: Task | Message = await self._connection.call(Operation.SEND, params)
            return found
        chosen = self._chosen(params.message.task_id)
        known = await self._addressed(params, chosen, context)
        if known is not None:
            query = GetTaskRequest(id=known.id, history_length=params.configuration.history_length)
            return await self._task(Operation.GET, query, chosen)
        answer: Task | Message = await self._connection.call(Operation.SEND, params)
        return self._as_task(answer, params, chosen) if isinstance(answer, Message) else _renamed(answer, chosen)

    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Event, None]:
        _check_push(params)
        operation, chosen = Operation.STREAM, None
        request: SendMessageRequest | SubscribeToTaskRequest = params
        if _chooses_ids(context):
            chosen = self._chosen(params.message.task_id)
            known = await self._addressed(params, chosen, context)
            if known is not None and rests(known):
                yield await self._task(Operation.GET, GetTaskRequest(id=known.id), chosen)
                return
            if known is not None:
                operation, request = Operation.SUBSCRIBE, SubscribeToTaskRequest(id=known.id)
        async with aclosing(self._connection.stream(operation, request)) as events:
            async for event in events:
                if chosen is None:
                    yield event
                elif isinstance(event, Message):
                    task = self._as_task(event, params, chosen)
                    yield TaskStatusUpdateEvent(task_id=task.id, context_id=task.context_id, status=task.status)
                else:
                    yield _renamed(event, chosen)
                del event

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        chosen = await self._resolve(params, context)
        return await self._task(Operation.GET, params, chosen)

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        chosen = await self._resolve(params, context)
        return await self._task(Operation.CANCEL, params, chosen)

    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Event, None]:
        chosen = await self._resolve(params, context)
        async with aclosing(self._connection.stream(Operation.SUBSCRIBE, params)) as events:
            async for event in events:
                yield _renamed(event, chosen)
                del event

    async def _refuse_push(self, *_: object, **__: object) -> NoReturn:
        raise PushNotificationNotSupportedError(_NO_PUSH)

    async def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise NotTranslated(_NO_OPERATION)

    on_create_task_push_notification_config = _refuse_push
    on_get_task_push_notification_config = _refuse_push
    on_list_task_push_notification_configs = _refuse_push
    on_delete_task_push_notification_config = _refuse_push
    on_get_extended_agent_card = _refuse
    on_list_tasks = _refuse

    def _chosen(self, task_id: str) -> ChosenId:
        return ChosenId.of(task_id, caller=self._caller, agent=self._agent)

    async def _addressed(self, params: SendMessageRequest, chosen: ChosenId, context: ServerCallContext) -> Task | None:
        """Adapt a message of A2A 0.1: its ids, and the media types that the caller accepts.

        Return the task if the message repeats an earlier one.

        Raises: InvalidRequestError: The message is too late to be a retransmission.
        """
        message = params.message
        _add_media_types(params)
        task = await self._found(chosen, message.context_id)
        message_id = chosen.message_id(message, context.state.get(CALLED) or None, task=task, random=uuid.uuid4().hex)
        if task is not None and any(said.message_id == message_id for said in task.history):
            if is_too_late(task, now_ns=self._clock.now_ns()):
                raise InvalidRequestError(SAID_BEFORE)
            return task
        message.message_id = message_id
        message.task_id = "" if task is None else task.id
        message.context_id = task.context_id if task is not None else message.context_id or chosen.context_id
        return None

    async def _resolve(self, params: _TaskQuery, context: ServerCallContext) -> ChosenId | None:
        """Replace a chosen id by the agent's id. Return None if the caller has started no task under the id."""
        if not _chooses_ids(context):
            return None
        chosen = self._chosen(params.id)
        task = await self._found(chosen, "")
        if task is None:
            return None
        params.id = task.id
        return chosen

    async def _found(self, chosen: ChosenId, context_id: str) -> Task | None:
        """Return the task that the caller has started under an id.

        Without a known conversation, only the tasks that the agent lists first are searched; these are the newest.
        """
        key = (chosen.text, context_id)
        if key not in self._found_before:
            self._found_before[key] = await self._search(chosen, context_id)
        return self._found_before[key]

    async def _search(self, chosen: ChosenId, context_id: str) -> Task | None:
        for place in (context_id,) if context_id else (chosen.context_id, ""):
            async for tasks in self._pages(place):
                if task := chosen.find(tasks):
                    return task
        return None

    async def _pages(self, context_id: str) -> AsyncGenerator[Sequence[Task], None]:
        """Yield the newest tasks: in one page, or in small pages if one page is too large to be read."""
        try:
            listed = await self._list(ListTasksRequest(context_id=context_id, page_size=_PAGE))
        except (InternalError, InvalidAgentResponseError):
            if self._connection.failure is not None:
                raise
            token = ""
            for _ in range(_PAGE // _SMALL_PAGE):
                query = ListTasksRequest(context_id=context_id, page_size=_SMALL_PAGE, page_token=token)
                listed = await self._list(query)
                yield listed.tasks
                token = listed.next_page_token
                if not token:
                    return
        else:
            yield listed.tasks

    async def _list(self, query: ListTasksRequest) -> ListTasksResponse:
        try:
            listed: ListTasksResponse = await self._connection.call(Operation.LIST, query)
        except (MethodNotFoundError, UnsupportedOperationError):
            raise NotTranslated(_NO_LIST) from None
        return listed

    async def _task(self, operation: Operation, request: Proto, chosen: ChosenId | None) -> Task:
        task: Task = await self._connection.call(operation, request)
        return _renamed(task, chosen)

    def _as_task(self, reply: Message, params: SendMessageRequest, chosen: ChosenId) -> Task:
        """Return the task for an answer that is a message, because A2A 0.1 has tasks only."""
        task = chosen.answered(reply, context_id=params.message.context_id)
        task.status.timestamp.FromNanoseconds(self._clock.now_ns())
        return task


def _chooses_ids(context: ServerCallContext) -> bool:
    return context.state.get(DIALECT) == V01.version


def _check_push(params: SendMessageRequest) -> None:
    if params.configuration.HasField("task_push_notification_config"):
        raise PushNotificationNotSupportedError(_NO_PUSH)


def _add_media_types(params: SendMessageRequest) -> None:
    """Add the media type of each word. The word stays, because some agents of A2A 1.0 offer it as an output mode."""
    accepted = params.configuration.accepted_output_modes
    added = [kind for word, kind in _MEDIA_TYPES.items() if word in accepted and kind not in accepted]
    if added:  # Even an empty extension could mark a configuration as set that the caller has not sent.
        accepted.extend(added)


def _renamed(shown: Shown, chosen: ChosenId | None) -> Shown:
    """Replace the agent's id of the task by the caller's id."""
    if chosen is None or isinstance(shown, Message):
        return shown
    if isinstance(shown, Task):
        shown.id = chosen.text
    else:
        shown.task_id = chosen.text
    return shown
