"""Ends a turn that has reached its limit of model calls or tokens, or that repeats one tool call with the same result.

The limits count calls in the stored conversation and tokens in the stored usage of the task, so restarts and pauses do
not reset them. The limit of model calls cannot be switched off, because a model that keeps calling tools would
otherwise consume time and money without end. At half of the limit of repetitions, the model receives a note, which is
sent but not stored.
"""

from langchain_core.messages import HumanMessage

from fleetwright_agent.protocol.frames import TurnFailed
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.rounds import RepeatedCall, model_calls, most_repeated


class RepeatLimitLink:
    """This link is inside the compaction link, so that the note is not compacted."""

    def __init__(self, most_repeats: int, metrics: Metrics) -> None:
        self._most_repeats = most_repeats
        self._metrics = metrics

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        repeat = most_repeated(request.state["messages"])
        if repeat is None:
            return await call(request)
        if repeat.times >= self._most_repeats:
            self._metrics.repeated_calls.labels("ended").inc()
            raise _ended(repeat)
        told_at = (self._most_repeats + 1) // 2
        if repeat.before < told_at <= repeat.times:
            self._metrics.repeated_calls.labels("nudged").inc()
            request = request.override(messages=[*request.messages, _note(repeat)])
        return await call(request)


def _note(repeat: RepeatedCall) -> HumanMessage:
    return HumanMessage(
        f"Note: {repeat.tool} was called {repeat.times} times with the same arguments and gave the same result. "
        "Do not repeat that call: answer with what you have, or try something else."
    )


def _ended(repeat: RepeatedCall) -> TurnFailed:
    text = f"The agent repeated one tool call {repeat.times} times with the same result and was stopped."
    return TurnFailed("repeated_tool_call", text, details={"repeated": {"tool": repeat.tool, "times": repeat.times}})


class RoundLimitLink:
    def __init__(self, most_calls: int) -> None:
        self._most_calls = most_calls

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if model_calls(request.state["messages"]) >= self._most_calls:
            text = f"The agent reached its limit of {self._most_calls} model calls without an answer."
            raise TurnFailed("model_call_limit", text)
        return await call(request)


class TokenLimitLink:
    """Ends the turn before the next model call. The last call may therefore exceed the limit."""

    def __init__(self, most_tokens: int) -> None:
        self._most_tokens = most_tokens

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        used = request.runtime.context.usage.tokens
        if used >= self._most_tokens:
            text = f"The agent reached its limit of {self._most_tokens} tokens for one message without an answer."
            raise TurnFailed("token_limit", text, details={"tokens": {"used": used, "limit": self._most_tokens}})
        return await call(request)
