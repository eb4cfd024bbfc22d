"""LangChain's and deepagents' middleware, as their authors ship them, in a loop that plays a script.

It runs in an environment of its own (`locks/reference-compaction.txt`):

    python -m tests.bench.compaction.baselines langchain|langchain-untrimmed|deepagents MEASURE,… SEED [quick]

This module does not import Fleetwright.
"""

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from langchain.agents.middleware import ModelRequest, ModelResponse, SummarizationMiddleware
from langchain_core.exceptions import ContextOverflowError
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.graph.message import add_messages
from tests.bench.compaction import measures
from tests.bench.compaction.measures import Setting
from tests.bench.compaction.scripted import Script, ScriptedChat

SYSTEM = "You keep the books of a workshop. Be brief."


@dataclass
class Baseline:
    script: Script
    middleware: Any
    folder: Path
    state: dict[str, Any] = field(default_factory=lambda: {"messages": []})
    failures: list[Exception] = field(default_factory=list)
    events: int = 0
    seconds: float = 0.0
    elsewhere: float = 0.0
    _count: int = 0

    async def play(self, turns: int | None = None) -> None:
        left = len(self.script.conversation.turns) - self.script.turn - 1
        for _ in range(left if turns is None else turns):
            await self.say(self.script.ask())

    async def say(self, text: str) -> None:
        self._store(HumanMessage(text))
        try:
            while (reply := await self._round()).tool_calls:
                for call in reply.tool_calls:
                    told, failed = self.script.result()
                    status = "error" if failed else "success"
                    self._store(ToolMessage(told, tool_call_id=call["id"] or "", name=call["name"], status=status))
        except Exception as failure:
            self.failures.append(failure)

    async def _round(self) -> AIMessage:
        runtime: Any = SimpleNamespace(context=None, config={"configurable": {"thread_id": "bench"}}, store=None)
        began, elsewhere = time.process_time(), self.elsewhere
        self._apply(await self.middleware.abefore_model(self.state, runtime))
        request: Any = ModelRequest(
            model=ScriptedChat(script=self.script),
            messages=list(self.state["messages"]),
            system_message=SystemMessage(SYSTEM),
            tools=self._tools(),
            state=self.state,
            runtime=runtime,
        )
        wraps = type(self.middleware).awrap_model_call is not SummarizationMiddleware.awrap_model_call
        reply = await (self.middleware.awrap_model_call(request, self._call) if wraps else self._call(request))
        if getattr(reply, "command", None) is not None:
            self._apply(reply.command.update)
        response = getattr(reply, "model_response", reply)
        message: AIMessage = response.result[0]
        self.seconds += time.process_time() - began - (self.elsewhere - elsewhere)
        self._store(message)
        return message

    async def _call(self, request: Any) -> ModelResponse[Any]:
        began = time.process_time()
        try:
            bound = request.model.bind_tools(request.tools) if request.tools else request.model
            return ModelResponse(result=[await bound.ainvoke([request.system_message, *request.messages])])
        finally:
            self.elsewhere += time.process_time() - began

    def _apply(self, update: dict[str, Any] | None) -> None:
        update = dict(update or {})
        if "messages" in update:
            self.state["messages"] = add_messages(self.state["messages"], update.pop("messages"))
            self.events += 1
        if update.get("_summarization_event"):
            self.events += 1
        self.state.update(update)

    def _store(self, message: AnyMessage) -> None:
        self.state["messages"] = [*self.state["messages"], message.model_copy(update={"id": f"m{self._count}"})]
        self._count += 1

    def _tools(self) -> list[Any]:
        names = sorted({call.name for turn in self.script.conversation.turns for call in turn.calls})
        schema = {"type": "object"}
        return [
            {"type": "function", "function": {"name": n, "description": f"The tool {n}.", "parameters": schema}}
            for n in names
        ]

    def compactions(self) -> int:
        return self.events

    def changes(self) -> int:
        return self.events

    async def summary_size(self) -> int:
        event = self.state.get("_summarization_event")
        messages = [event["summary_message"]] if event else self.state["messages"]
        found = [m for m in messages if m.additional_kwargs.get("lc_source") == "summarization"]
        return max((len(str(message.content)) for message in found), default=0)

    async def recalled(self, _: str) -> str:
        """Return what the agent could read again: the files that the middleware wrote and named in its summary."""
        return "\n".join(path.read_text() for path in self.folder.rglob("*.md"))


def middleware(name: str, script: Script, setting: Setting, folder: Path) -> Any:
    summariser = ScriptedChat(script=script, summarises=True, profile={"max_input_tokens": setting.window})
    trigger: Any = [("tokens", setting.tokens)]
    if setting.messages:
        trigger.append(("messages", setting.messages))
    if name.startswith("langchain"):
        # By default it summarises only the newest 4,000 tokens of the removed part. With this setting it summarises all
        # of it.
        trimmed = {} if name == "langchain" else {"trim_tokens_to_summarize": None}
        return SummarizationMiddleware(summariser, trigger=trigger, keep=("messages", 20), **trimmed)
    from deepagents.backends import FilesystemBackend
    from deepagents.middleware.summarization import SummarizationMiddleware as DeepSummarization
    from deepagents.middleware.summarization import compute_summarization_defaults

    return DeepSummarization(
        summariser,
        backend=FilesystemBackend(root_dir=folder, virtual_mode=True),
        trigger=trigger,
        keep=("messages", 20),
        # These are the settings of its own factory.
        trim_tokens_to_summarize=None,
        truncate_args_settings=compute_summarization_defaults(summariser)["truncate_args_settings"],
    )


def opener(name: str) -> measures.Open:
    @asynccontextmanager
    async def open_system(script: Script, setting: Setting) -> AsyncIterator[Baseline]:
        with tempfile.TemporaryDirectory(prefix="compaction-") as folder:
            script.overflow = lambda: ContextOverflowError("maximum context length is exceeded")
            yield Baseline(script, middleware(name, script, setting, Path(folder)), Path(folder))

    return open_system


if __name__ == "__main__":
    name, wanted, seed, *rest = sys.argv[1:]
    found = asyncio.run(measures.run(opener(name), wanted.split(","), quick="quick" in rest, seed=int(seed)))
    print(json.dumps(found))
