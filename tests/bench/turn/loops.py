"""Loops for the same conversation: ours with and without durability, LangChain's bare loop, and floors between them.

A floor is the bare loop with a saver. The saver that keeps nothing shows LangGraph's own overhead for having a saver.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from langchain.agents import create_agent
from langchain_core.messages import AnyMessage, HumanMessage, SystemMessage
from langchain_core.runnables import RunnableConfig
from langchain_core.tools import StructuredTool
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.base import BaseCheckpointSaver, ChannelVersions, Checkpoint, CheckpointMetadata
from langgraph.checkpoint.memory import InMemorySaver
from prometheus_client import CollectorRegistry
from pydantic import SecretStr
from tests.bench.turn.chat import QUESTION, TOOL, Prompt
from tests.bench.turn.nowhere import Held, Nowhere

from fleetwright_a2a.clock import Clock
from fleetwright_a2a.redaction.redactor import Redactor
from fleetwright_agent.audit.factory import audit_trail
from fleetwright_agent.config.agent import AgentConfig
from fleetwright_agent.config.layout import Layout
from fleetwright_agent.memory.sessions import Sessions
from fleetwright_agent.plugins.loading import Plugins
from fleetwright_agent.protocol.frames import TurnDone, TurnRequest
from fleetwright_agent.storage.memory.task_log import MemoryTaskLog
from fleetwright_agent.storage.sqlite.conversations import schema
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.storage import sqlite_storage
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.telemetry.tracing import UNTOLD
from fleetwright_agent.tools.mcp.tool_cache import ToolCache
from fleetwright_agent.tools.port import Tool, ToolContext
from fleetwright_agent.tools.registry import ToolRegistry
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.dependencies import TurnDependencies
from fleetwright_agent.turn.grants import Grants
from fleetwright_agent.turn.graph_turn import GraphTurn
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls
from fleetwright_agent.turn.pipeline.order import model_links
from fleetwright_agent.turn.pipeline.tool.auditing import ToolAudit
from fleetwright_agent.turn.pipeline.tool.decisions import CallDecisions
from fleetwright_agent.turn.pipeline.tool.enforcement import EnforcementPolicy
from fleetwright_agent.turn.pipeline.tool.skill_fence import SkillFence
from fleetwright_agent.turn.pipeline.tool.tool_calls import ToolCalls
from fleetwright_agent.turn.views import Views

INSTRUCTIONS = "You are the desk. Be brief."


def configured(**changes: Any) -> AgentConfig:
    model = {
        "name": "prompt", "baseUrl": "http://127.0.0.1:9/v1", "contextWindow": 10_000_000, "maxOutputTokens": 1000,
        "timeoutSeconds": 5, "price": {"inputPerMillion": "1", "outputPerMillion": "2"},
    }  # fmt: skip
    document = {
        "version": 1, "revision": "r1", "name": "desk", "namespace": "bench", "instructions": INSTRUCTIONS,
        "url": "http://desk", "model": model, "compaction": {"mode": "Off"},
    }  # fmt: skip
    return AgentConfig.model_validate(document | changes)


@dataclass
class Ours:
    turn: GraphTurn
    told: int = 0

    async def say(self) -> None:
        self.told += 1
        request = TurnRequest("client:bench", "c", f"task-{self.told}", QUESTION)
        async for frame in self.turn.run(request):
            if isinstance(frame, TurnDone):
                return
        raise RuntimeError("the turn has no end")


@asynccontextmanager
async def ours(*, lasting: bool) -> AsyncIterator[Ours]:
    """Run our loop.

    With `lasting`, every step is on disk before it becomes visible, with journal, usage store, audit trail and session.
    """
    forgetful = {} if lasting else {"memory": {"sessions": {"enabled": False}}, "audit": {"mode": "Off"}}
    config, metrics = configured(**forgetful), Metrics(CollectorRegistry())
    with tempfile.TemporaryDirectory(prefix="fleetwright-bench-") as folder:
        layout = Layout(root=Path(folder))
        layout.memory.mkdir(parents=True)
        database = Database(layout.memory / schema.FILE, schema.SCHEMA) if lasting else Nowhere(schema.SCHEMA)
        storage = sqlite_storage(layout.memory, conversations=database)
        dependencies = TurnDependencies(
            config=config,
            layout=layout,
            clock=Clock(),
            metrics=metrics,
            storage=storage,
            delegations=MemoryTaskLog(),
            tool_cache=ToolCache(),
            plugins=Plugins((), metrics),
            audit_trail=audit_trail(config, layout, metrics, Clock()),
            cost_accounting=CostAccounting(
                config.budgets,
                storage.usage,
                metrics,
                open_calls=storage.open_calls if lasting else None,
                now=time.time,
            ),
            tracing=UNTOLD,
        )
        turn = _turn(dependencies, lasting=lasting)
        try:
            yield Ours(turn)
        finally:
            await turn.aclose()
            await storage.facts.aclose()
            await storage.skills.aclose()
            await dependencies.audit_trail.aclose()
            await database.aclose()


class OneTool:
    """The provider of the benchmark's tool."""

    name = "bench"

    async def tools(self, context: ToolContext) -> list[Tool]:
        return [TOOL]

    async def close(self) -> None:
        """Do nothing."""


def _turn(dependencies: TurnDependencies, *, lasting: bool) -> GraphTurn:
    """Build the turn as the assembly does, with another model and a tool."""
    config, metrics = dependencies.config, dependencies.metrics
    storage = dependencies.storage
    saver, views = storage.checkpoints() if lasting else Held(), Views(storage.views())
    enforcement = EnforcementPolicy(config.enforcement, storage.call_windows)
    grants = Grants(storage.grants)
    auditor = ToolAudit(dependencies.audit_trail, config.audit.mode)
    calls = ModelCalls(config.model, metrics, accounting=dependencies.cost_accounting)
    chat: Any = Prompt(endpoint=config.model)
    return GraphTurn(
        config,
        chat=chat,
        links=model_links(dependencies, views=views, calls=calls, chats=[chat]),
        runner=ToolCalls(
            config.limits,
            metrics,
            storage.journal,
            enforcement=enforcement,
            decisions=CallDecisions(config, grants),
            fence=SkillFence(lambda _: None, mounted=()),
            auditor=auditor,
        ),
        storage=storage,
        saver=saver,
        sessions=Sessions(storage.sessions, redact=Redactor().text),
        registry=ToolRegistry([OneTool()]),
        grants=grants,
        unknown=auditor.unknown,
    )


@dataclass
class Bare:
    """LangChain's own loop without a checkpointer. Its caller passes the history each time."""

    history: list[AnyMessage] = field(default_factory=list)

    saver: BaseCheckpointSaver[Any] | None = None

    def __post_init__(self) -> None:
        async def order_status(order: int) -> str:
            """Return the status of an order."""
            return str(await TOOL.run(None))  # type: ignore[arg-type]  # the tool ignores it

        tool = StructuredTool.from_function(coroutine=order_status, name=TOOL.name, description=TOOL.description)
        prompt = SystemMessage(INSTRUCTIONS)
        self._graph: Any = create_agent(
            Prompt(endpoint=None), tools=[tool], system_prompt=prompt, checkpointer=self.saver
        )
        self._sync: dict[str, Any] = {"durability": "sync"} if self.saver else {}

    async def say(self) -> None:
        before = [] if isinstance(self.saver, InMemorySaver) else self.history
        place: RunnableConfig = {"configurable": {"thread_id": "t"}}
        ended = await self._graph.ainvoke({"messages": [*before, HumanMessage(QUESTION)]}, place, **self._sync)
        self.history = ended["messages"]


class BareStream:
    """LangChain's own loop and client on a model server, in this process: no server, no memory, no tools."""

    def __init__(self, port: int) -> None:
        chat = ChatOpenAI(model="m", base_url=f"http://127.0.0.1:{port}/v1", api_key=SecretStr("none"), max_retries=0)
        self._graph: Any = create_agent(chat, system_prompt=SystemMessage(INSTRUCTIONS))

    async def heard(self) -> float:
        """Return the seconds to the first piece of the answer, and read the rest."""
        began, heard = time.perf_counter(), 0.0
        asked = {"messages": [HumanMessage("Tell me.")]}
        async for piece, _ in self._graph.astream(asked, stream_mode="messages"):
            if not heard and piece.text:
                heard = time.perf_counter() - began
        return heard


class Forgetting(BaseCheckpointSaver[int]):
    """A saver that keeps nothing and takes no time."""

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        return {"configurable": {**config["configurable"], "checkpoint_id": checkpoint["id"]}}

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Discard the writes."""

    async def aget_tuple(self, config: RunnableConfig) -> None:
        return None


FLOORS: dict[str, type[BaseCheckpointSaver[Any]]] = {
    "LangGraph and a saver that keeps nothing": Forgetting,
    "LangGraph and its MemorySaver": InMemorySaver,
}
