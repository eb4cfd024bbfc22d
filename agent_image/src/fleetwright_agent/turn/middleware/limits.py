"""Ends a turn that gets nowhere: too many calls of the model, or one call of a tool again and again (T-01, PA-093).

Counts are read from the conversation, so that neither a restart nor a pause begins them anew. At half of the limit of
repeats the model is told, once, in a message that is sent and not stored.
"""

from langchain_core.messages import HumanMessage

from fleetwright_agent.config.server import Limits
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.turn.frames import TurnFailed
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.rounds import Repeat, model_calls, most_repeated


class LimitsLink:
    """Stands inside compaction: what it adds is no part of what is compacted."""

    def __init__(self, limits: Limits, metrics: Metrics) -> None:
        self._most_calls = limits.most_model_calls
        self._most_repeats = limits.max_repeated_calls
        self._metrics = metrics

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        stored = request.state["messages"]
        if model_calls(stored) >= self._most_calls:
            text = f"The agent had no answer after its limit of {self._most_calls} calls of the model."
            raise TurnFailed("model_call_limit", text)
        repeat = most_repeated(stored)
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


def _note(repeat: Repeat) -> HumanMessage:
    return HumanMessage(
        f"Note: {repeat.tool} was called {repeat.times} times with the same arguments and gave the same result. "
        "Do not repeat that call: answer with what you have, or try something else."
    )


def _ended(repeat: Repeat) -> TurnFailed:
    text = f"The agent made one call of a tool {repeat.times} times and got the same result each time; it was stopped."
    return TurnFailed("repeated_tool_call", text, details={"repeated": {"tool": repeat.tool, "times": repeat.times}})
