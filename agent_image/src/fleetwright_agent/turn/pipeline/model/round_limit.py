"""Ends a turn that has asked the model too often (T-01).

Counted in the conversation, so that neither a restart nor a pause begins anew. It cannot be switched off: what else
would end a model that calls one tool after another is the caller's time and money.
"""

from fleetwright_agent.protocol.frames import TurnFailed
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.rounds import model_calls


class LimitsLink:
    def __init__(self, most_calls: int) -> None:
        self._most_calls = most_calls

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if model_calls(request.state["messages"]) >= self._most_calls:
            text = f"The agent had no answer after its limit of {self._most_calls} calls of the model."
            raise TurnFailed("model_call_limit", text)
        return await call(request)
