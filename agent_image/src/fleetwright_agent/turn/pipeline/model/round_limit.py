"""Ends a turn that has reached its limit of model calls.

Calls are counted in the conversation, so restarts and pauses do not reset the count. The limit cannot be switched off,
because a model that keeps calling tools would otherwise consume the caller's time and money without end.
"""

from fleetwright_agent.protocol.frames import TurnFailed
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.rounds import model_calls


class RoundLimitLink:
    def __init__(self, most_calls: int) -> None:
        self._most_calls = most_calls

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if model_calls(request.state["messages"]) >= self._most_calls:
            text = f"The agent reached its limit of {self._most_calls} model calls without an answer."
            raise TurnFailed("model_call_limit", text)
        return await call(request)
