"""Runs one task of a sub-agent on a separate LangGraph thread, which another process can resume.

The outcome is stored before the turn receives the outcome. A turn that resumes after a restart therefore repeats
neither finished sub-agents nor finished tool calls of sub-agents. A failure is always a tool error, so the turn
continues. A question to a person is not an outcome: the sub-agent continues on the same thread after the reply.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage
from langchain_core.runnables import RunnableConfig

from fleetwright_agent.config.sub_agents import DELEGATING, SubAgent
from fleetwright_agent.protocol.frames import Frame, ToolArtifact, ToolEnd, ToolOutput, ToolStart, TurnFailed
from fleetwright_agent.storage.conversations import SideThread
from fleetwright_agent.storage.tool_journal import CallState, ToolJournal
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.tools.name_sanitizer import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.rounds import STEPS_PER_CALL, tool_calls
from fleetwright_agent.turn.sub_agents.listener import FinishedTask, TaskListener
from fleetwright_agent.turn.sub_agents.questions import (
    SubAgentQuestion,
    first_question,
    nested_call_id,
    resume_with,
)

_log = logging.getLogger(__name__)
_OUTCOME: Final = "outcome"
_SPARE_CALLS: Final = 5


@dataclass(frozen=True, slots=True)
class SubAgentLoop:
    """A sub-agent and its compiled graph."""

    config: SubAgent
    graph: Any


@dataclass(frozen=True, slots=True)
class _SubAgentResult:
    word: str
    """The outcome, as the label value of the metric."""
    text: str
    tools: tuple[str, ...] = ()


class SubAgentRun:
    def __init__(
        self,
        workers: Sequence[SubAgentLoop],
        *,
        journal: ToolJournal,
        metrics: Metrics,
        listeners: Sequence[TaskListener] = (),
    ) -> None:
        self._workers = {worker.config.name: worker for worker in workers}
        self._journal = journal
        self._metrics = metrics
        self._listeners = tuple(listeners)

    @property
    def sub_agents(self) -> list[SubAgent]:
        return [worker.config for worker in self._workers.values()]

    async def answer(
        self, sub_agent: str, task: str, *, place: str, call: ToolCall, context: ToolContext
    ) -> str | SubAgentQuestion:
        """Run the task, and return the complete answer, or the question at which the sub-agent waits for a person.

        Args: `place` identifies the task within the turn and stays the same after a restart. `call` is the tool call
        that delegated the task.

        Raises:
            ToolError: There is no answer; the message gives the reason.
        """
        turn = context.request
        thread = SideThread(turn.owner, turn.context_id, turn.task_id).delegated(place)
        before = await self._journal.get(thread, _OUTCOME)
        if before is not None and before.state is CallState.DONE:
            return _told(before.body["word"], before.body["text"])
        worker = self._workers[sub_agent]
        outcome = await self._outcome(worker, task, call, _inner(worker.config, thread, call, context))
        if isinstance(outcome, SubAgentQuestion):
            await self._journal.settled(thread)
            return outcome
        await self._journal.settle(thread, _OUTCOME, {"word": outcome.word, "text": outcome.text})
        self._metrics.sub_agent_tasks.labels(sub_agent, outcome.word).inc()
        if outcome.word == "ok":
            await self._tell(FinishedTask(turn, sub_agent, task, outcome.text, outcome.tools), call.emit)
        return _told(outcome.word, outcome.text)

    async def _outcome(
        self, worker: SubAgentLoop, task: str, call: ToolCall, inner: TurnContext
    ) -> _SubAgentResult | SubAgentQuestion:
        name, seconds = worker.config.name, worker.config.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                found = await _worked(worker, task, inner)
        except TurnFailed as failed:
            return _SubAgentResult("failed", f"{name} came to no end: {failed.message}")
        except TimeoutError:
            if limit.expired():
                return _SubAgentResult("timeout", f"{name} was not done within {seconds} s and was stopped")
            return _broke(name)
        except Exception:
            return _broke(name)
        if question := first_question(name, call.identity, found):
            return question
        messages: list[AnyMessage] = found["messages"]
        text = messages[-1].text
        if not text.strip():
            return _SubAgentResult("failed", f"{name} gave an empty answer")
        return _SubAgentResult("ok", text, _answered(messages))

    async def _tell(self, finished: FinishedTask, tell: Callable[[Frame], None]) -> None:
        for listener in self._listeners:
            try:
                await listener.finished(finished, tell)
            except Exception:
                _log.exception("a listener for sub-agent tasks failed")


def _inner(sub_agent: SubAgent, thread: str, call: ToolCall, context: ToolContext) -> TurnContext:
    """Return the sub-agent's context. Caller, limits, accounting and some tools are those of the delegating turn."""
    return TurnContext(
        replace(context.request, sub_agent=sub_agent.name),
        _within(call.identity, context.emit),
        shared_tools(context.tools, sub_agent),
        thread,
        hold=context.hold,
        usage=context.usage,
        waits_for_budget=False,
        silent=True,
    )


def _within(outer: str, emit: Callable[[Frame], None]) -> Callable[[Frame], None]:
    """Report the sub-agent's tool calls, with their output, as children of the delegating call."""

    def told(frame: Frame) -> None:
        if isinstance(frame, ToolStart | ToolEnd | ToolOutput | ToolArtifact):
            frame = replace(frame, call_id=nested_call_id(outer, frame.call_id), parent=outer)
        emit(frame)

    return told


async def _worked(worker: SubAgentLoop, task: str, inner: TurnContext) -> Mapping[str, Any]:
    """Run the graph, or resume it where it stopped, and return its values."""
    steps = STEPS_PER_CALL * (worker.config.max_model_calls + _SPARE_CALLS)
    # Name the thread explicitly: otherwise LangGraph treats this run as a subgraph of the current step.
    place: RunnableConfig = {"configurable": {"thread_id": inner.thread}, "recursion_limit": steps}
    stored = await worker.graph.aget_state(place)
    inner.fresh = not stored.values
    found: Mapping[str, Any] = stored.values
    if inner.fresh or stored.tasks:
        # The calls before a question or a restart count for the limit on tool calls, as those of the turn do.
        inner.usage.tool_calls += tool_calls(found.get("messages", ()))
        start = {"messages": [HumanMessage(task)], "task": inner.request.task_id}
        entry = start if inner.fresh else resume_with(inner.request.reply, stored)
        found = await worker.graph.ainvoke(entry, place, context=inner, durability="sync")
    return found


def _answered(messages: Sequence[AnyMessage]) -> tuple[str, ...]:
    names = (str(each.name) for each in messages if isinstance(each, ToolMessage) and each.status == "success")
    return tuple(dict.fromkeys(names))


def _told(word: str, text: str) -> str:
    if word != "ok":
        raise ToolError(text)
    return text


def _broke(name: str) -> _SubAgentResult:
    _log.exception("a sub-agent failed", extra={"subAgent": name})
    return _SubAgentResult("failed", f"{name} broke; go on without it")


def shared_tools(tools: Mapping[str, Tool], sub_agent: SubAgent) -> dict[str, Tool]:
    """Return the sub-agent's listed tools that the turn has. Denied and unreachable tools are not among them."""
    allowed = {offered_name(name) for name in sub_agent.tools} - DELEGATING - {RECALL}
    return {name: tool for name, tool in tools.items() if name in allowed}
