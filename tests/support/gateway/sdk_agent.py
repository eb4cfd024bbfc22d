"""An agent of the a2a-sdk that supports only A2A 1.0 over JSON-RPC, as the documentation of the SDK builds it."""

import asyncio
from base64 import urlsafe_b64decode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.routes import create_jsonrpc_routes
from a2a.server.tasks import InMemoryTaskStore, TaskUpdater
from a2a.types import AgentCapabilities, AgentCard, AgentInterface, AgentSkill, Message, Part, Role, Task, TaskState
from a2a.types.a2a_pb2 import TaskStatus
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from tests.support.http_server import serve_app

ENDS = {
    "fail": TaskState.TASK_STATE_FAILED,
    "reject": TaskState.TASK_STATE_REJECTED,
    "ask": TaskState.TASK_STATE_INPUT_REQUIRED,
    "login": TaskState.TASK_STATE_AUTH_REQUIRED,
}


class Steered(AgentExecutor):
    """Does what the first word of a message says. `reply` answers with a message, and every other word repeats."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.accepted: list[list[str]] = []
        """The media types that the caller of each message accepts."""
        self.stopped = asyncio.Event()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._record(context)
        text = context.get_user_input()
        word = text.partition(" ")[0]
        said = Message(message_id="m", role=Role.ROLE_AGENT, parts=[Part(text=f"about {text}")])
        if word == "reply":
            await event_queue.enqueue_event(said)
            return
        updater = await self._updater(context, event_queue)
        await updater.start_work()
        if word == "hang":
            await self.stopped.wait()
        elif word in ENDS:
            await updater.update_status(ENDS[word], updater.new_agent_message(list(said.parts)))
        else:
            await updater.add_artifact([Part(text="Done with ")], artifact_id="a", name="answer")
            await updater.add_artifact([Part(text=f"{text}.")], artifact_id="a", append=True, last_chunk=True)
            await updater.complete()

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        updater = TaskUpdater(event_queue, context.task_id or "", context.context_id or "")
        await updater.cancel()

    def _record(self, context: RequestContext) -> None:
        assert context.message is not None
        assert context.configuration is not None
        self.messages.append(context.message)
        self.accepted.append(list(context.configuration.accepted_output_modes))

    async def _updater(self, context: RequestContext, event_queue: EventQueue) -> TaskUpdater:
        """Return the updater of the task. Create the task if it is new."""
        if context.current_task is None:
            assert context.message is not None
            status = TaskStatus(state=TaskState.TASK_STATE_SUBMITTED)
            task = Task(id=context.task_id, context_id=context.context_id, status=status, history=[context.message])
            await event_queue.enqueue_event(task)
        return TaskUpdater(event_queue, context.task_id or "", context.context_id or "")


class ScriptedExecutor(Steered):
    """Follows a script, in which `ask` pauses with a question, `say` reports progress, and other lines are answers."""

    def __init__(self, script: Mapping[str, Sequence[str]]) -> None:
        super().__init__()
        self._script = script

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        self._record(context)
        updater = await self._updater(context, event_queue)
        for line in self._script[context.get_user_input()]:
            kind, _, text = line.partition(": ")
            if kind == "ask":
                await updater.requires_input(updater.new_agent_message([Part(text=text)]))
                return
            if kind == "say":
                await updater.start_work(updater.new_agent_message([Part(text=text)]))
            else:
                await updater.add_artifact([Part(text=line)])
        await updater.complete()


def _delegated(token: str | None) -> str | None:
    if token is None:
        return None
    encoded = token.split("~")[1]
    return urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode()


class SdkAgent:
    def __init__(self, executor: Steered | None = None) -> None:
        self.executor = executor or Steered()
        self.versions: list[str | None] = []
        """The header `A2A-Version` of each request."""
        self.methods: list[str] = []
        self.delegated: list[str | None] = []
        """The task that the delegation of each request names; None for a request without a delegation."""
        self.port = 0

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        card = AgentCard(
            name="callee",
            description="Repeats.",
            version="1",
            supported_interfaces=[
                AgentInterface(url="http://callee/a2a", protocol_binding="JSONRPC", protocol_version="1.0")
            ],
            capabilities=AgentCapabilities(streaming=True),
            default_input_modes=["text/plain"],
            default_output_modes=["text/plain"],
            skills=[AgentSkill(id="chat", name="chat", description="Talk.", tags=["chat"])],
        )
        handler = DefaultRequestHandler(agent_executor=self.executor, task_store=InMemoryTaskStore(), agent_card=card)
        (route,) = create_jsonrpc_routes(handler, "/a2a")
        answer = route.endpoint

        async def recorded(request: Request) -> Response:
            self.versions.append(request.headers.get("a2a-version"))
            self.methods.append((await request.json())["method"])
            self.delegated.append(_delegated(request.headers.get("fleetwright-delegation")))
            response: Response = await answer(request)
            return response

        route.endpoint = recorded
        app = Starlette()
        app.add_route("/a2a", recorded, methods=["POST"])
        async with serve_app(app, lifespan="off") as self.port:
            try:
                yield
            finally:
                self.executor.stopped.set()
