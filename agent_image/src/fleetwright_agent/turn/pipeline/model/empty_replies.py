"""Asks a model to continue if its reply to tool results is empty.

The request to continue is sent but not stored. If the replies stay empty, the turn ends with an empty answer.
"""

from langchain_core.messages import AnyMessage, HumanMessage

from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.model_calls import answer_of
from fleetwright_agent.turn.pipeline.model.prompt_repair import CONTINUE
from fleetwright_agent.turn.rounds import answers_tools


class EmptyReplies:
    def __init__(self, most: int, metrics: Metrics) -> None:
        """Args: `most` is the maximum number of such requests for one reply."""
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
