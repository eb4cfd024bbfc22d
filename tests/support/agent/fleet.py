"""A gateway in memory, and the agent `cook` behind it."""

import hashlib
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NoReturn

import httpx
from a2a.types.a2a_pb2 import Task

from fleetwright_a2a.authentication import Delegation
from fleetwright_agent.app import create_app
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnRequest
from fleetwright_agent.protocol.turn import TurnHooks
from fleetwright_agent.storage.errors import TaskLogUnavailable
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.tasks.records import Claim
from fleetwright_agent.turn.context import TurnContext

GATEWAY = "http://gateway"
ME = "n/desk"
COOK = {"namespace": "n", "name": "cook", "description": "cooks", "phase": "Running"}
CARD = {
    "name": "cook", "description": "d", "version": "1",
    "supportedInterfaces": [{"url": "http://cook/a2a", "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}],
    "capabilities": {"streaming": True}, "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
    "skills": [{"id": "chat", "name": "chat", "description": "d", "tags": ["chat"]}],
}  # fmt: skip
FOUND = "eggs, boiled"
COMPLETED = {
    "id": "t", "contextId": "c", "status": {"state": "TASK_STATE_COMPLETED"},
    "artifacts": [{"artifactId": "a", "parts": [{"text": FOUND}]}],
}  # fmt: skip


class Gateway(httpx.AsyncBaseTransport):
    """Serves the list of peers, and forwards to one agent with that agent's own token."""

    def __init__(self, agent: httpx.AsyncBaseTransport | None = None) -> None:
        self.agent = agent
        self.peers: object = {"items": [COOK]}
        self.pages: dict[str | None, object] = {}
        """Later pages, by their tokens."""
        self.status = 200
        self.tokens: list[str] = []
        self.delegations: list[str | None] = []
        self.tasks: list[str | None] = []
        self.lists = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.tokens.append(request.headers["authorization"])
        self.delegations.append(request.headers.get("fleetwright-delegation"))
        self.tasks.append(request.headers.get("fleetwright-task"))
        path = request.url.path
        if path == f"/v1/agents/{ME}/peers":
            self.lists += 1
            return httpx.Response(self.status, json=self.pages.get(request.url.params.get("pageToken"), self.peers))
        if self.agent is None or not path.startswith("/agents/n/cook/"):
            return httpx.Response(404, json={"title": "There is no such agent."})
        request.headers["authorization"] = f"Bearer {'t' * 43}"
        url = request.url.copy_with(path=path.removeprefix("/agents/n/cook"))
        forwarded = httpx.Request(request.method, url, headers=request.headers, stream=request.stream)
        return await self.agent.handle_async_request(forwarded)


class Cook:
    """A turn that answers every message in the same way, and records the messages."""

    def __init__(self) -> None:
        self.heard: list[TurnRequest] = []

    async def run(self, request: TurnRequest, hooks: TurnHooks) -> AsyncGenerator[Frame, None]:
        self.heard.append(request)
        yield TurnDone(FOUND)

    async def aclose(self) -> None:
        """No resources to release."""


def build_context() -> TurnContext:
    return TurnContext(TurnRequest("client:a", "c", "t", "x"), lambda _: None, {})


@asynccontextmanager
async def serve_cook(folder: Path) -> AsyncIterator[tuple[Cook, Gateway]]:
    """Yield the agent behind the gateway, and the gateway."""
    theirs = Layout(root=folder / "cook")
    digest = hashlib.sha256(("t" * 43).encode()).hexdigest()
    theirs.memory.mkdir(parents=True)
    theirs.callers_file.parent.mkdir(parents=True)
    callers = [{"name": ME, "kind": "agent", "sha256": digest}]
    theirs.callers_file.write_text(json.dumps({"version": 1, "callers": callers}))
    theirs.card_file.parent.mkdir(parents=True)
    theirs.card_file.write_text(json.dumps(CARD))
    model = {"name": "m", "baseUrl": "u", "contextWindow": 9, "maxOutputTokens": 1, "timeoutSeconds": 1}
    config = AgentConfig.model_validate(
        {
            "version": 1, "revision": "r", "name": "cook", "namespace": "n", "instructions": "i", "url": "http://cook",
            "model": model,
        }
    )  # fmt: skip
    cook = Cook()
    app = create_app(config, layout=theirs, turn=cook)
    await app.start()
    yield cook, Gateway(httpx.ASGITransport(app.a2a))
    await app.drain()
    await app.aclose()


async def open_log_with_delegation(task_id: str) -> MemoryTaskLog:
    """Return a log with a task that has a delegation until second 60."""
    log = MemoryTaskLog()
    delegation = Delegation(f"delegation-of-{task_id}", 60, task_id)
    await log.accept(Claim("client:a", task_id, b""), Task(id=task_id, context_id="c1"), at_ns=1, delegation=delegation)
    return log


class UnreadableLog:
    """A task log that cannot read delegations."""

    async def delegation(self, *_: object) -> NoReturn:
        raise TaskLogUnavailable
