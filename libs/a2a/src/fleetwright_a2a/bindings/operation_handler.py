"""The interface of the handler that executes the operations of A2A, for every binding and version.

It has the methods of the SDK's `RequestHandler`. The SDK's module is not imported, because its package imports the
SDK's own server, which would be a quarter of the imports at the start of an agent.
"""

from collections.abc import AsyncGenerator
from typing import Any, Protocol

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
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
)


class OperationHandler(Protocol):
    """Every method raises A2AError for the caller. Other errors are internal and are never shown."""

    async def on_message_send(self, params: SendMessageRequest, context: ServerCallContext) -> Task | Message: ...

    def on_message_send_stream(
        self, params: SendMessageRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Yield the task or message, and then the events of the task."""

    async def on_get_task(self, params: GetTaskRequest, context: ServerCallContext) -> Task: ...

    async def on_list_tasks(self, params: ListTasksRequest, context: ServerCallContext) -> ListTasksResponse: ...

    async def on_cancel_task(self, params: CancelTaskRequest, context: ServerCallContext) -> Task: ...

    def on_subscribe_to_task(
        self, params: SubscribeToTaskRequest, context: ServerCallContext
    ) -> AsyncGenerator[Any, None]:
        """Yield the task as it is, and then its further events."""

    async def on_create_task_push_notification_config(
        self, params: TaskPushNotificationConfig, context: ServerCallContext
    ) -> TaskPushNotificationConfig: ...

    async def on_get_task_push_notification_config(
        self, params: GetTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> TaskPushNotificationConfig: ...

    async def on_list_task_push_notification_configs(
        self, params: ListTaskPushNotificationConfigsRequest, context: ServerCallContext
    ) -> ListTaskPushNotificationConfigsResponse: ...

    async def on_delete_task_push_notification_config(
        self, params: DeleteTaskPushNotificationConfigRequest, context: ServerCallContext
    ) -> None: ...

    async def on_get_extended_agent_card(
        self, params: GetExtendedAgentCardRequest, context: ServerCallContext
    ) -> AgentCard: ...
