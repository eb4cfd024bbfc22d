"""The model calls that write summaries, with the errors that a summariser expects."""

import logging
from collections.abc import Sequence
from typing import Any

from langchain_core.messages import AIMessage, AnyMessage

from fleetwright_agent.protocol.frames import TurnFailed
from fleetwright_agent.turn.compaction.summariser import AskModel, SummaryFailed, SummaryTooLong
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.cost.accounting import OverBudget
from fleetwright_agent.turn.pipeline.model.model_calls import ModelCalls, ModelFailed
from fleetwright_agent.turn.providers.factory import Chat

_log = logging.getLogger(__name__)


def summary_request(calls: ModelCalls, context: TurnContext) -> AskModel:
    """Return the function with which a summariser calls a model during this turn."""

    async def ask(prompt: Sequence[AnyMessage], *, model: Any, chat: Chat, most: int) -> AIMessage:
        try:
            return await calls.aside(prompt, model=model, chat=chat, most=most, context=context)
        except ModelFailed as failed:
            if failed.failure.overflow:
                raise SummaryTooLong from failed
            raise SummaryFailed("model_error") from failed
        except OverBudget:
            raise SummaryFailed("budget") from None
        except TurnFailed:
            raise
        except Exception as broken:
            # Provider clients raise many exceptions, and a failed summary must not end the turn.
            _log.exception("a summary could not be made")
            raise SummaryFailed("model_error") from broken

    return ask
