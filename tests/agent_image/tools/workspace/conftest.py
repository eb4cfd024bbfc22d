"""The tools of a workspace with a runner in memory."""

import posixpath
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.support.agent.fake_runner import ROOT, FakeRunner

from fleetwright_agent.config.workspace import Workspace
from fleetwright_agent.protocol.frames import TurnRequest
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.storage.storage import Storage
from fleetwright_agent.tools.port import Decision, Tool, ToolCall, ToolResult
from fleetwright_agent.tools.workspace.provider import WorkspaceTools
from fleetwright_agent.tools.workspace.web.page_fetcher import PageFetcher
from fleetwright_agent.turn.context import TurnContext


def no_web(_: httpx.Request) -> httpx.Response:
    return httpx.Response(500)


@dataclass
class Bench:
    """The tools of one configuration, called as a turn of a client would call them."""

    tools: dict[str, Tool]
    runner: FakeRunner
    storage: Storage
    written: list[str] = field(default_factory=list)

    def call(
        self,
        arguments: dict[str, Any],
        *,
        owner: str,
        context: str,
        key: str,
        task: str,
        approved: str | None = None,
        state: str = "",
    ) -> ToolCall:
        turn = TurnRequest(owner, context, task, "x")
        return ToolCall(arguments, turn, lambda _: None, None, key, "id", self.written.append, approved, state)

    async def run(
        self,
        tool: str,
        *,
        owner: str = "client:web",
        context: str = "c",
        key: str = "k",
        task: str = "t",
        unapproved: bool = False,
        state: str | None = None,
        **arguments: Any,
    ) -> ToolResult:
        """Run a tool that a person has approved, and return its result.

        Args: `state` is what the person has seen; the current state of the file by default.
        """
        file = posixpath.normpath(posixpath.join(ROOT, arguments.get("path", "")))
        approved = None if unapproved else f"Change {file}?"
        if state is None:
            seen = await self.storage.workspace.last_read(owner, context, self.runner.links.get(file, file))
            state = "new" if seen is None else seen.digest
        called = self.call(arguments, owner=owner, context=context, key=key, task=task, approved=approved, state=state)
        result = await self.tools[tool].run(called)
        return result if isinstance(result, ToolResult) else ToolResult(result)

    async def decide(
        self, tool: str, *, owner: str = "client:web", context: str = "c", key: str = "k", **arguments: Any
    ) -> Decision:
        return await self.tools[tool].decide(self.call(arguments, owner=owner, context=context, key=key, task="t"))


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    opened = sqlite_storage(tmp_path / "memory")
    yield opened
    await opened.file.aclose()


@pytest.fixture
async def bench(storage: Storage) -> AsyncIterator[Callable[..., Any]]:
    """Return a function that builds the tools of a configuration."""
    providers: list[WorkspaceTools] = []

    async def build(
        files: dict[str, str] | None = None,
        *,
        transport: httpx.AsyncBaseTransport | None = None,
        runner: FakeRunner | None = None,
        **config: Any,
    ) -> Bench:
        runner = runner or FakeRunner({f"/workspace/{name}": text for name, text in (files or {}).items()})
        workspace = Workspace.model_validate({"url": "http://w:1", "webHosts": ["docs.example.com"], **config})
        fetcher = PageFetcher(workspace.web_hosts, transport or httpx.MockTransport(no_web))
        provider = WorkspaceTools(workspace, runner, storage.workspace, fetcher)
        providers.append(provider)
        context = TurnContext(TurnRequest("client:web", "c", "t", "x"), lambda _: None, {})
        return Bench({tool.name: tool for tool in await provider.tools(context)}, runner, storage)

    yield build
    for provider in providers:
        await provider.close()
