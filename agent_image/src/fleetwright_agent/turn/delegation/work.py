"""Runs one task of a sub-agent on a separate LangGraph thread, which another process can resume.

The outcome is stored before the turn receives the outcome. A turn that resumes after a restart therefore repeats
neither finished sub-agents nor finished tool calls of sub-agents. A failure is always a tool error, so the turn
continues.
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
from fleetwright_agent.tools.names import offered_name
from fleetwright_agent.tools.port import Tool, ToolCall, ToolContext, ToolError
from fleetwright_agent.turn.compaction.recall import NAME as RECALL
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.delegation.listener import FinishedTask, TaskListener
from fleetwright_agent.turn.rounds import STEPS_PER_CALL

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

    async def answer(self, sub_agent: str, task: str, *, place: str, call: ToolCall, context: ToolContext) -> str:
        """Run the task, and return the complete answer.

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
        outcome = await self._outcome(worker, task, _inner(worker.config, thread, call, context))
        await self._journal.settle(thread, _OUTCOME, {"word": outcome.word, "text": outcome.text})
        self._metrics.sub_agent_tasks.labels(sub_agent, outcome.word).inc()
        if outcome.word == "ok":
            await self._tell(FinishedTask(turn, sub_agent, task, outcome.text, outcome.tools), call.emit)
        return _told(outcome.word, outcome.text)

    async def _outcome(self, worker: SubAgentLoop, task: str, inner: TurnContext) -> _SubAgentResult:
        name, seconds = worker.config.name, worker.config.timeout_seconds
        try:
            async with asyncio.timeout(seconds) as limit:
                messages = await _worked(worker, task, inner)
        except TurnFailed as failed:
            return _SubAgentResult("failed", f"{name} came to no end: {failed.message}")
        except TimeoutError:
            if limit.expired():
                return _SubAgentResult("timeout", f"{name} was not done within {seconds} s and was stopped")
            return _broke(name)
        except Exception:
            return _broke(name)
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
        tally=context.tally,
        attended=False,
        silent=True,
    )


def _within(outer: str, emit: Callable[[Frame], None]) -> Callable[[Frame], None]:
    """Report the sub-agent's tool calls, with their output, as children of the delegating call."""

    def told(frame: Frame) -> None:
        if isinstance(frame, ToolStart | ToolEnd | ToolOutput | ToolArtifact):
            frame = replace(frame, call_id=f"{outer}/{frame.call_id}", parent=outer)
        emit(frame)

    return told


async def _worked(worker: SubAgentLoop, task: str, inner: TurnContext) -> list[AnyMessage]:
    """Run the graph, or resume it where the last process stopped, and return all messages."""
    steps = STEPS_PER_CALL * (worker.config.max_model_calls + _SPARE_CALLS)
    # Name the thread explicitly: otherwise LangGraph treats this run as a subgraph of the current step.
    place: RunnableConfig = {"configurable": {"thread_id": inner.thread}, "recursion_limit": steps}
    stored = await worker.graph.aget_state(place)
    inner.fresh = not stored.values
    found: Mapping[str, Any] = stored.values
    if inner.fresh or stored.tasks:
        entry = {"messages": [HumanMessage(task)], "task": inner.request.task_id} if inner.fresh else None
        found = await worker.graph.ainvoke(entry, place, context=inner, durability="sync")
    messages: list[AnyMessage] = found["messages"]
    return messages


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
    """Return the sub-agent's listed tools that the turn has. Tools that are denied or unreachable are not among them.

    A call that needs a person is declined, because a sub-agent cannot ask. The agent itself can make such a call.
    """
    allowed = {offered_name(name) for name in sub_agent.tools} - DELEGATING - {RECALL}
    return {name: tool for name, tool in tools.items() if name in allowed}
