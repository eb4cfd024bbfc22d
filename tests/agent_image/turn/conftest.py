"""Fixtures for turns: a real offline model and a real MCP server on loopback."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.routing import Route
from tests.support.http_server import serve_in_thread

from fleetwright_a2a.clock import Clock
from fleetwright_agent.audit.factory import audit_trail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.protocol.frames import Frame, TurnDone, TurnFailed, TurnRequest
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.turn.assembly import build_turn
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.graph_turn import GraphTurn
from fleetwright_cli.offline.model import OfflineModel
from fleetwright_cli.offline.orders import orders_server


@pytest.fixture(scope="session")
def model_port(process_ring: None) -> Iterator[int]:
    with serve_in_thread(OfflineModel().app()) as port:
        yield port


@pytest.fixture
def saying(process_ring: None) -> Callable[..., Any]:
    """Start a model that streams exactly those deltas, and yield its port."""

    @contextmanager
    def open_model(*deltas: dict[str, Any]) -> Iterator[int]:
        choices = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
        choices.append({"index": 0, "delta": {}, "finish_reason": "stop"})
        frame = {"id": "c", "created": 0, "model": "m", "object": "chat.completion.chunk"}
        events = [f"data: {json.dumps({**frame, 'choices': [choice]})}\n\n" for choice in choices]

        async def answer(_: Request) -> StreamingResponse:
            return StreamingResponse(iter([*events, "data: [DONE]\n\n"]), media_type="text/event-stream")

        with serve_in_thread(Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])) as port:
            yield port

    return open_model


@pytest.fixture(scope="session")
def orders_port(process_ring: None) -> Iterator[int]:
    with serve_in_thread(orders_server(host="127.0.0.1", port=1).streamable_http_app()) as port:
        yield port


@pytest.fixture
def config(model_port: int) -> Callable[..., AgentConfig]:
    def build(**changes: Any) -> AgentConfig:
        model = {
            "name": "offline",
            "baseUrl": f"http://127.0.0.1:{model_port}/v1",
            "contextWindow": 8000,
            "maxOutputTokens": 1000,
            "timeoutSeconds": 5,
            "price": {"inputPerMillion": "1", "outputPerMillion": "2", "cachedInputPerMillion": "0.1"},
        }
        document = {
            "version": 1,
            "revision": "r1",
            "name": "desk",
            "namespace": "shop",
            "instructions": "You are the desk. Be brief.",
            "url": "http://desk",
            "model": model | changes.pop("model", {}),
        }
        return AgentConfig.model_validate(document | changes)

    return build


@dataclass
class Said:
    """The frames of one turn, which ends with an answer or a failure."""

    frames: list[Frame] = field(default_factory=list)
    failure: TurnFailed | None = None

    @property
    def answer(self) -> str:
        return next(frame.text for frame in self.frames if isinstance(frame, TurnDone))

    def of(self, kind: type[Any]) -> list[Any]:
        return [frame for frame in self.frames if isinstance(frame, kind)]


@dataclass
class Talk:
    turn: GraphTurn
    metrics: Metrics
    waits: list[float]
    accounting: CostAccounting

    async def say(
        self, text: str, *, owner: str = "client:default", context: str = "c1", metadata: dict[str, Any] | None = None
    ) -> Said:
        said = Said()
        try:
            async for frame in self.turn.run(TurnRequest(owner, context, "task", text, metadata=metadata or {})):
                said.frames.append(frame)
        except TurnFailed as failure:
            said.failure = failure
        return said

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"fleetwright_{name}", labels) or 0.0


@pytest.fixture
def talking(tmp_path: Path) -> Callable[[AgentConfig], Any]:
    """Return a function that opens a turn; opening it again is a restart. Retry delays are recorded, not waited."""

    @asynccontextmanager
    async def open_turn(config: AgentConfig) -> AsyncIterator[Talk]:
        layout, metrics = Layout(root=tmp_path), Metrics(CollectorRegistry())
        waits: list[float] = []

        async def sleep(seconds: float) -> None:
            waits.append(seconds)
            await asyncio.sleep(0)

        storage = sqlite_storage(layout.memory)
        accounting = CostAccounting(config.budgets, storage.usage, metrics, now=time.time)
        trail = audit_trail(config, layout, metrics, Clock())
        dependencies = TurnDependencies(
            config=config,
            layout=layout,
            clock=Clock(),
            metrics=metrics,
            storage=storage,
            delegations=MemoryTaskLog(),
            tool_cache=ToolCache(),
            plugins=Plugins(config.plugins, metrics),
            audit_trail=trail,
            cost_accounting=accounting,
            tracing=UNTOLD,
        )
        turn: Any = build_turn(dependencies, sleep=sleep)
        try:
            yield Talk(turn, metrics, waits, accounting)
        finally:
            await turn.aclose()
            await trail.aclose()
            await storage.facts.aclose()
            await storage.skills.aclose()
            await storage.file.aclose()

    return open_turn


@pytest.fixture
def serve(process_ring: None) -> Callable[..., Any]:
    return serve_in_thread
