"""The operations of A2A on the task log: send, stream, get, list, cancel, subscribe, push.

Every task, context, list and push configuration belongs to the caller that created it. For other callers, it does not
exist. This module does not know the older protocol versions.
"""

# ruff: noqa: ARG002 - the SDK's interface fixes the arguments, also of operations that are rejected

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, contextmanager

from a2a.server.context import ServerCallContext
from a2a.types.a2a_pb2 import (
    AgentCard,
    CancelTaskRequest,
    DeleteTaskPushNotificationConfigRequest,
    GetExtendedAgentCardRequest,
    GetTaskPushNotificationConfigRequest,
    GetTaskRequest,
    ListTaskPushNotificationConfigsRequest,
    ListTaskPushNotificationConfigsResponse,
    ListTasksRequest,
    ListTasksResponse,
    Message,
    SendMessageConfiguration,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
)
from a2a.utils.errors import (
    ExtendedAgentCardNotConfiguredError,
    PushNotificationNotSupportedError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)
from a2a.utils.task import apply_history_length, validate_history_length

from fleetwright_a2a.bindings.calls import CALLED, TASKS_ONLY, TRACEPARENT, chain_in, delegation_in
from fleetwright_a2a.bindings.operation_handler import OperationHandler
from fleetwright_a2a.card import Card
from fleetwright_a2a.errors import operation
from fleetwright_a2a.extensions import trace_in
from fleetwright_a2a.http.concurrency_limits import ConcurrencyLimit
from fleetwright_a2a.message_replies import HELD, direct_reply
from fleetwright_a2a.task_events import TERMINAL, Event, rests, state_word
from fleetwright_agent.config.file_watcher import FileWatcher
from fleetwright_agent.server.ops.task_activity import TaskActivity
from fleetwright_agent.server.push.payload import dialect_of
from fleetwright_agent.server.push.registration import listed
from fleetwright_agent.server.push.service import PushService
from fleetwright_agent.server.tasks.active_task import ActiveTask
from fleetwright_agent.server.tasks.active_tasks import ActiveTasks
from fleetwright_agent.server.tasks.listing import TaskListing
from fleetwright_agent.server.tasks.message_acceptor import MessageAcceptor, Start
from fleetwright_agent.server.tasks.messages import check_id
from fleetwright_agent.server.tasks.output_modes import OutputModes, tailored
from fleetwright_agent.server.tasks.task_runner import TaskRunner
from fleetwright_agent.storage.errors import TaskLogUnavailable

_operation = operation(TaskLogUnavailable)


class TaskRequestHandler(OperationHandler):
    def __init__(
        self,
        acceptor: MessageAcceptor,
        *,
        listing: TaskListing,
        tasks: ActiveTasks,
        runs: TaskRunner,
        activity: TaskActivity,
        pushes: PushService | None = None,
        may_reply: bool = False,
        most_streams: int,
        extended: FileWatcher[Card] | None = None,
    ) -> None:
        """
        Args:
            pushes: The push service, if the agent offers push notifications.
            may_reply: True if the executor may answer with a message instead of a task.
            most_streams: The maximum number of streams that one caller may have open.
            extended: The extended agent card, if the agent has one.
        """
        self._streams = ConcurrencyLimit(
            most_streams, "This caller has {most} streams open, which is the maximum; close one."
        )
        self._acceptor = acceptor
        self._may_reply = may_reply
        self._listing = listing
        self._tasks = tasks
        self._runs = runs
        self._activity = activity
        self._pushes = pushes
        self._extended = extended

    @property
    def open_streams(self) -> int:
        """The number of streams and subscriptions that callers have open."""
        return self._streams.taken

    @_operation
    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message:
        live, start = await self._take(params, context)
        start()
        accepted = OutputModes(params.configuration.accepted_output_modes)
        if params.configuration.return_immediately:
            return _shown(live.task, accepted, params.configuration)
        task = await live.rested()
        if TASKS_ONLY not in context.state and (reply := direct_reply(task)):
            return tailored(reply, accepted) or reply
        return _shown(task, accepted, params.configuration)

    @_operation
    async def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Event, None]:
        accepted = OutputModes(params.configuration.accepted_output_modes)
        with self._stream_of(context):
            live, start = await self._take(params, context)
            try:
                may_reply = self._may_reply and TASKS_ONLY not in context.state
                async for event in _stream(live, start=start, may_reply=may_reply):
                    if isinstance(event, Task):
                        yield _shown(event, accepted, params.configuration)
                    elif (told := tailored(event, accepted)) is not None:
                        yield told
            finally:
                start()  # The message counts as sent, even if the caller disconnects before the first event.

    @_operation
    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task:
        validate_history_length(params)
        live = await self._find(context, params.id)
        return apply_history_length(live.task, params)

    @_operation
    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse:
        validate_history_length(params)
        self._activity.note()
        return await self._listing.page(context.user.user_name, params)

    @_operation
    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task:
        live = await self._find(context, params.id)
        if live.state in TERMINAL:
            raise TaskNotCancelableError(f"The task is {state_word(live.state)} already")
        await self._runs.cancel(live)
        task = await live.rested()
        if task.status.state != TaskState.TASK_STATE_CANCELED:
            raise TaskNotCancelableError(f"The task is {state_word(task.status.state)} already")
        return task

    @_operation
    async def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Task | Event, None]:
        live = await self._find(context, params.id)
        if live.state in TERMINAL:
            raise UnsupportedOperationError(f"The task is {state_word(live.state)}; read it with GetTask")
        with self._stream_of(context):
            async for event in _stream(live):
                yield event

    @contextmanager
    def _stream_of(self, context: ServerCallContext) -> Iterator[None]:
        """Count an open stream. Its end is an activity of the task, because the caller has read the task until then."""
        with self._streams.hold(context.user.user_name):
            try:
                yield
            finally:
                self._activity.note()

    async def _find(self, context: ServerCallContext, task_id: str) -> ActiveTask:
        check_id(task_id, field="id")
        self._activity.note()
        live = await self._tasks.find(context.user.user_name, task_id)
        if live is None:
            raise TaskNotFoundError
        return live

    @_operation
    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        pushes = self._offered()
        live = await self._find(context, params.task_id)
        return await pushes.register(
            live, await pushes.draft(context.user.user_name, params, dialect=dialect_of(context))
        )

    @_operation
    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig:
        pushes = self._offered()
        return await pushes.one(await self._find(context, params.task_id), params.id)

    @_operation
    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse:
        pushes = self._offered()
        return listed(await pushes.registered(await self._find(context, params.task_id)), params)

    @_operation
    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None:
        pushes = self._offered()
        await pushes.remove(await self._find(context, params.task_id), params.id)

    def _offered(self) -> PushService:
        if self._pushes is None:
            raise PushNotificationNotSupportedError
        return self._pushes

    async def _take(self, params: SendMessageRequest, context: ServerCallContext) -> tuple[ActiveTask, Start]:
        """Accept a message, and register its push configuration before the task starts to run.

        A message with an invalid push configuration is not accepted. If the log fails between both steps, the task runs
        without the registration, which is added when the caller repeats the message.
        """
        validate_history_length(params.configuration)
        if not params.configuration.HasField("task_push_notification_config"):
            return await self._taken(params, context)
        pushes = self._offered()
        config = params.configuration.task_push_notification_config
        draft = await pushes.draft(context.user.user_name, config, dialect=dialect_of(context))
        if params.message.task_id and (known := await self._tasks.find(context.user.user_name, params.message.task_id)):
            await pushes.check_room(known, draft)
        live, start = await self._taken(params, context)
        try:
            await pushes.register(live, draft)
        except BaseException:
            start()  # The message is accepted, so its work must start.
            raise
        return live, start

    async def _taken(self, params: SendMessageRequest, context: ServerCallContext) -> tuple[ActiveTask, Start]:
        self._activity.note()
        return await self._acceptor.take(
            context.user.user_name,
            params,
            called=context.state.get(CALLED),
            requested=context.requested_extensions,
            trace=trace_in(context.state.get(TRACEPARENT, "")),
            delegation=delegation_in(context),
            chain=chain_in(context),
        )

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard:
        card = self._extended.read()[0] if self._extended else None
        if card is None:
            raise ExtendedAgentCardNotConfiguredError
        return card.message()


def _shown(task: Task, accepted: OutputModes, wanted: SendMessageConfiguration) -> Task:
    return apply_history_length(tailored(task, accepted) or task, wanted)


async def _stream(
    live: ActiveTask, *, start: Start | None = None, may_reply: bool = False
) -> AsyncGenerator[Task | Event, None]:
    """Yield the events of a task, beginning with the task itself.

    With `start`, the stream ends at once if the task is at rest. Without it, the stream of an interrupted task waits
    for later events, because a subscriber sends no message.
    """
    events = live.read()
    async with aclosing(events):
        # The first event is a snapshot of the task, so that the caller misses no event of the run. Start the run before
        # the first event is sent, because the caller may disconnect directly after the event.
        first = await anext(events)
        if start is not None:
            start()
        if may_reply:
            yield HELD
            await live.moved()
            if reply := direct_reply(live.task):
                yield reply
                return
        yield first
        if isinstance(first, Task) and rests(first) and (start is not None or first.status.state in TERMINAL):
            return
        del first
        async for event in events:
            yield event
            del event
