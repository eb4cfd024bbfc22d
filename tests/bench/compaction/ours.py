"""Fleetwright's compaction in a loop that plays a script: its link, its model calls and its disk.

The agent's loop is left out because its cost is not measured here. The tests of whole agents cover it.
"""

import tempfile
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from prometheus_client import CollectorRegistry
from tests.bench.compaction.measures import Open, Setting
from tests.bench.compaction.scripted import Script, ScriptedChat

from fleetwright_agent.config.budgets import Budget
from fleetwright_agent.config.compaction import Compaction
from fleetwright_agent.config.model import Model
from fleetwright_agent.protocol.frames import Frame, TurnRequest, Usage
from fleetwright_agent.storage.sqlite.conversations.schema import SCHEMA
from fleetwright_agent.storage.sqlite.conversations.views import SqliteViewStore
from fleetwright_agent.storage.sqlite.engine.database import Database
from fleetwright_agent.storage.sqlite.usage_store import SqliteUsageStore
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.port import Tool, ToolCall
from fleetwright_agent.turn.compaction.recall import recall_tool, search
from fleetwright_agent.turn.compaction.view import View
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import CostAccounting
from fleetwright_agent.turn.pipeline.model.compaction.link import CompactionLink
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls, answer_of
from fleetwright_agent.turn.providers.chat_completions.errors import CompletionStatusError
from fleetwright_agent.turn.views import Views

THREAD = "bench"
SYSTEM = "You keep the books of a workshop. Be brief."


@dataclass
class Ours:
    script: Script
    link: CompactionLink
    calls: ModelCalls
    chat: Any
    database: Database
    views: Views
    metrics: Metrics
    ledger: SqliteUsageStore
    tools: dict[str, Tool]
    seconds: float = 0.0
    """Processor seconds that compaction took, without the model's own part."""
    elsewhere: float = 0.0
    now: float = 0.0
    """The time of the link's monotonic clock."""
    stored: list[AnyMessage] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    failures: list[Exception] = field(default_factory=list)
    restart: Callable[[], None] = lambda: None
    """Replace the link with one that knows only what is on disk, as a new process does."""

    async def play(self, turns: int | None = None) -> None:
        """Play the script, or the given number of its turns."""
        left = len(self.script.conversation.turns) - self.script.turn - 1
        for _ in range(left if turns is None else turns):
            await self.say(self.script.ask())

    async def say(self, text: str, *, idle: float = 0.0) -> None:
        request = TurnRequest("client:bench", "c", "task", text)
        recall = recall_tool(partial(self._archived))
        context = TurnContext(request, self.frames.append, {**self.tools, recall.name: recall}, THREAD)
        context.idle_seconds = idle
        self._store(HumanMessage(text))
        try:
            while (reply := await self._round(context)).tool_calls:
                for call in reply.tool_calls:
                    told, failed = self.script.result()
                    status = "error" if failed else "success"
                    self._store(ToolMessage(told, tool_call_id=call["id"] or "", name=call["name"], status=status))
        except Exception as failure:
            self.failures.append(failure)

    async def _round(self, context: TurnContext) -> AIMessage:
        request: Any = ModelRequest(
            model=self.chat,
            messages=list(self.stored),
            system_message=SystemMessage(SYSTEM),
            tools=list(context.declarations),
            state={"messages": self.stored},
            runtime=SimpleNamespace(context=context),  # type: ignore[arg-type]  # the links read only the context
        )
        began, elsewhere = time.process_time(), self.elsewhere
        reply = answer_of(await self.link.around_model(request, self._call))
        self.seconds += time.process_time() - began - (self.elsewhere - elsewhere)
        assert reply is not None
        self._store(reply)
        return reply

    async def _call(self, request: Any) -> Any:
        began = time.process_time()
        try:
            return await self.calls.around_model(request, _provider)
        finally:
            self.elsewhere += time.process_time() - began

    def _store(self, message: AnyMessage) -> None:
        self.stored.append(message.model_copy(update={"id": f"m{len(self.stored)}"}))

    async def _archived(self) -> list[AnyMessage]:
        view = await self.view()
        if view is None:
            return []
        cut = next((i + 1 for i, message in enumerate(self.stored) if message.id == view.cut), 0)
        return [*self.stored[:cut], *(message for message in self.stored[cut:] if message.id in view.pruned)]

    async def view(self) -> View | None:
        return (await self.views.get(THREAD)).view

    async def summary_size(self) -> int:
        view = await self.view()
        return len(view.summary) if view else 0

    async def recalled(self, question: str) -> str:
        """Return what the recall tool finds."""
        return "\n".join(search(await self._archived(), question))

    def count(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"fleetwright_{name}", labels) or 0.0

    def compactions(self, outcome: str = "ok", *, pruned: bool = False) -> int:
        samples = next(iter(self.metrics.compactions.collect())).samples
        return int(
            sum(
                sample.value
                for sample in samples
                if sample.name.endswith("_total")
                and sample.labels["outcome"] == outcome
                and (sample.labels["method"] == "prune") is pruned
            )
        )

    def changes(self) -> int:
        return self.compactions() + self.compactions(pruned=True)

    def spent(self) -> list[Usage]:
        return [frame for frame in self.frames if isinstance(frame, Usage)]


async def _provider(request: Any) -> ModelResponse[Any]:
    bound = request.model.bind_tools(request.tools) if request.tools else request.model
    return ModelResponse([await bound.ainvoke([request.system_message, *request.messages])])


@asynccontextmanager
async def ours(
    script: Script,
    policy: dict[str, Any],
    *,
    window: int = 1_000_000,
    price: dict[str, str] | None = None,
    folder: Path | None = None,
    auxiliary: dict[str, Any] | None = None,
    budgets: Sequence[dict[str, Any]] = (),
    read_skill: Callable[[str], str | None] = lambda _: None,
) -> AsyncIterator[Ours]:
    with tempfile.TemporaryDirectory(prefix="compaction-") as temporary:
        metrics = Metrics(CollectorRegistry())
        model = _model(window, price, auxiliary)
        database = Database((folder or Path(temporary)) / "conversations.db", SCHEMA)
        ledger = SqliteUsageStore(database, now=time.time)
        books = CostAccounting([Budget.model_validate(each) for each in budgets], ledger, metrics, now=time.time)
        views, calls = Views(SqliteViewStore(database)), ModelCalls(model, metrics, accounting=books, sleep=_at_once)
        settings = Compaction.model_validate(policy)
        script.overflow = overflow
        chat = ScriptedChat(script=script, endpoint=model)
        system = Ours(script, None, calls, chat, database, views, metrics, ledger, _tools(script))  # type: ignore[arg-type]  # set below

        def restart() -> None:
            system.link = CompactionLink(
                settings, model, metrics, views=views, calls=calls, read_skill=read_skill, monotonic=lambda: system.now
            )

        system.restart = restart
        restart()
        try:
            yield system
        finally:
            await database.aclose()


def opener(prices: dict[str, str] | None = None) -> Open:
    """Return a function that opens the system for a measure."""

    @asynccontextmanager
    async def open_system(script: Script, setting: Setting) -> AsyncIterator[Ours]:
        trigger = {"tokens": setting.tokens, **({"messages": setting.messages} if setting.messages else {})}
        summary = {"maxTokens": setting.summary_tokens, "timeoutSeconds": setting.summary_timeout}
        prune = {} if setting.prune else {"overChars": 100_000_000}
        policy = {"trigger": trigger, "summary": summary, "prune": prune}
        async with ours(script, policy, window=setting.window, price=prices) as system:
            yield system

    return open_system


def overflow() -> Exception:
    """Return the exception that a provider's client raises for a prompt that is too long."""
    return CompletionStatusError(400, "maximum context length is exceeded", ("context_length_exceeded",))


async def _at_once(_: float) -> None:
    """Return at once: a benchmark never sleeps."""


def _model(window: int, price: dict[str, str] | None, auxiliary: dict[str, Any] | None) -> Model:
    fields = {"name": "scripted", "baseUrl": "http://127.0.0.1:9", "contextWindow": window, "timeoutSeconds": 60}
    output = {"maxOutputTokens": min(1000, window // 4)}
    other = {"auxiliary": auxiliary} if auxiliary else {}
    return Model.model_validate({**fields, **output, **other, **({"price": price} if price else {})})


def _tools(script: Script) -> dict[str, Tool]:
    async def run(_: ToolCall) -> str:
        return script.result()[0]

    names = {call.name for turn in script.conversation.turns for call in turn.calls}
    return {name: Tool(name, f"The tool {name}.", {"type": "object"}, run, repeatable=True) for name in names}
