"""An agent of this process behind a real HTTP server: its mounted files, a scripted turn, and ways to talk to it."""

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, cast

import httpx
from a2a.client import ClientConfig, ClientFactory
from a2a.client.client import Client
from a2a.types.a2a_pb2 import AgentCard
from google.protobuf.json_format import ParseDict
from tests.support.http_server import serve_app
from tests.support.machine import ceiling
from tests.support.plain_http import NO_TLS
from tests.support.waiting import within

from fleetwright_a2a.http.timeouts import TimeoutProtocol
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.process.application import Application
from fleetwright_agent.protocol.frames import Frame, Text, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.telemetry.metrics import Metrics

TOKENS = {"client:default": "token-of-default", "client:other": "token-of-other", "agent:team/peer": "token-of-peer"}


def config_document(**changes: Any) -> dict[str, Any]:
    document: dict[str, Any] = {
        "version": 1,
        "revision": "0123456789",
        "name": "echo",
        "namespace": "team",
        "instructions": "Repeat.",
        "url": "http://echo.team.svc.cluster.local",
        "model": {
            "name": "m",
            "baseUrl": "http://127.0.0.1:9",
            "contextWindow": 1000,
            "maxOutputTokens": 100,
            "timeoutSeconds": 5,
        },
        "drainSeconds": 1,
    }
    return document | changes


def card_document(url: str) -> dict[str, Any]:
    return {
        "name": "echo",
        "description": "Repeats.",
        "version": "1",
        "supportedInterfaces": [{"url": f"{url}/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
        "capabilities": {"streaming": True},
        "defaultInputModes": ["text/plain"],
        "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "chat", "name": "chat", "description": "Talk.", "tags": ["chat"]}],
    }


def callers_document(tokens: dict[str, str]) -> dict[str, Any]:
    callers = [
        {
            "kind": owner.partition(":")[0],
            "name": owner.partition(":")[2],
            "sha256": hashlib.sha256(token.encode()).hexdigest(),
        }
        for owner, token in tokens.items()
    ]
    return {"version": 1, "callers": callers}


@dataclass
class ScriptedTurn:
    """A turn that follows a script of the test. It records its requests and the tasks that it must release."""

    script: Callable[[TurnRequest], AsyncIterator[Frame]]
    requests: list[TurnRequest] = field(default_factory=list)
    released: list[str] = field(default_factory=list)
    closed: bool = False

    def over(self, owner: str, task_id: str) -> None:
        self.released.append(task_id)

    def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]:
        self.requests.append(request)
        return cast("AsyncGenerator[Frame, None]", self.script(request))

    async def aclose(self) -> None:
        self.closed = True


async def echo(request: TurnRequest) -> AsyncIterator[Frame]:
    yield Text(f"You said: {request.text}")
    yield TurnDone(f"You said: {request.text}")


@dataclass
class Mounted:
    """An agent's files below a folder."""

    layout: Layout

    def write(self, path: Path, document: Any) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def config(self) -> AgentConfig:
        return AgentConfig.model_validate_json(self.layout.config_file.read_text())


def mounted_at(root: Path, **changes: Any) -> Mounted:
    files = Mounted(Layout(root=root))
    files.write(files.layout.config_file, config_document(**changes))
    files.write(files.layout.card_file, card_document("http://echo"))
    files.write(files.layout.callers_file, callers_document(TOKENS))
    files.layout.memory.mkdir(parents=True)
    return files


@dataclass
class Door:
    """A running agent and ways to talk to it."""

    app: Application
    url: str
    turn: ScriptedTurn | None = None

    def http(self, owner: str | None = "client:default") -> httpx.AsyncClient:
        headers = {"A2A-Version": "1.0", "Content-Type": "application/json"}
        if owner is not None:
            headers["Authorization"] = f"Bearer {TOKENS[owner]}"
        return httpx.AsyncClient(verify=NO_TLS, base_url=self.url, headers=headers, timeout=ceiling())

    def ops(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(transport=httpx.ASGITransport(app=self.app.ops), base_url="http://ops")

    @asynccontextmanager
    async def client(self, owner: str = "client:default") -> AsyncIterator[Client]:
        """Return the SDK's A2A client, with the credential of that caller."""
        async with self.http(owner) as http:
            factory = ClientFactory(ClientConfig(httpx_client=http))
            client = factory.create(ParseDict(card_document(self.url), AgentCard()))
            yield client

    async def call(self, method: str, params: Any, *, owner: str = "client:default") -> dict[str, Any]:
        """Make one raw JSON-RPC call, and return the whole response."""
        async with self.http(owner) as http:
            body = {"jsonrpc": "2.0", "id": "1", "method": method, "params": params}
            response = await http.post("/a2a", json=body)
            assert response.status_code == 200, response.text
            answer: dict[str, Any] = response.json()
            return answer

    async def say(
        self, text: str, *, owner: str = "client:default", now: bool = False, **message: Any
    ) -> dict[str, Any]:
        """Call SendMessage, and return the task."""
        answer = await self.call("SendMessage", said(text, now=now, **message), owner=owner)
        assert "error" not in answer, answer
        task: dict[str, Any] = answer["result"]["task"]
        return task

    async def get(self, task_id: str, *, owner: str = "client:default") -> dict[str, Any]:
        task: dict[str, Any] = (await self.call("GetTask", {"id": task_id}, owner=owner))["result"]
        return task

    async def until(self, task_id: str, state: str) -> dict[str, Any]:
        """Wait until the task is in that state, and return it."""
        task: dict[str, Any] = {}
        async with within(f"task {task_id} is {state}", shown=lambda: task):
            while (task := await self.get(task_id))["status"]["state"] != state:  # noqa: ASYNC110 - it asks from outside
                await asyncio.sleep(0.01)
        return task


_numbers = count()


def next_message_id() -> str:
    """Return an id that no other message of this process has."""
    return f"message-{next(_numbers)}"


def said(text: str, *, now: bool = False, **message: Any) -> dict[str, Any]:
    """Return the parameters of SendMessage."""
    identifier = message.pop("messageId", None) or next_message_id()
    body = {"messageId": identifier, "role": "ROLE_USER", "parts": [{"text": text}]} | message
    return {"message": body, "configuration": {"returnImmediately": now}}


Open = Callable[..., Awaitable[Door]]


@asynccontextmanager
async def startable_agent(mounted: Mounted) -> AsyncIterator[Open]:
    """Provide a function that starts the agent with a turn (the echo by default), and stop the agent after the block.

    Another start is a restart, because one process at a time uses the memory.
    """
    running = AsyncExitStack()

    async def start(
        script: Callable[[TurnRequest], AsyncIterator[Frame]] = echo,
        *,
        protocol: type[TimeoutProtocol] = TimeoutProtocol,
        metrics: Metrics | None = None,
        **seams: Any,
    ) -> Door:
        await running.aclose()
        turn = ScriptedTurn(script)
        app = create_app(mounted.config(), layout=mounted.layout, turn=turn, metrics=metrics, **seams)
        await app.start()
        running.push_async_callback(app.aclose)
        port = await running.enter_async_context(serve_app(app.a2a, http=protocol, lifespan="off"))
        running.push_async_callback(app.drain)
        return Door(app, f"http://127.0.0.1:{port}", turn)

    async with running:
        yield start
