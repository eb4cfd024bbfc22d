"""Asks a model to go on that says nothing to the results of its tools (T-05).

The asking is sent and not stored; a model that stays silent gives the turn its empty answer.
"""

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.model_calls import answer_of
from fleetwright_agent.turn.pipeline.model.prompt_repair import CONTINUE
from fleetwright_agent.turn.rounds import answers_tools


class EmptyReplies:
    def __init__(self, most: int, metrics: Metrics) -> None:
        """Args: `most` is how often it is asked for one reply."""
        self._most = most
        self._metrics = metrics

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        reply = await call(request)
        messages: list[AnyMessage] = list(request.messages)
        asked = 0
        while asked < self._most and answers_tools(request.state["messages"]) and _is_empty(reply):
            asked += 1
            self._metrics.empty_replies.inc()
            messages.append(HumanMessage(CONTINUE))
            reply = await call(request.override(messages=messages))
        return reply


def _is_empty(reply: Reply) -> bool:
    message = answer_of(reply)
    return message is not None and not message.tool_calls and not message.text.strip()
