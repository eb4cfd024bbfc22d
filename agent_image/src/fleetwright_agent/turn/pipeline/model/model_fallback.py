"""Falls back to the next declared model if a model fails. Reports the fallback to the caller, the log and a metric.

A failed model moves to the end of the order for 30 seconds, so that its retries do not delay each call. If all models
have failed recently, all are tried. Two failures cause no fallback: compaction shortens a prompt that is too long, and
other models would also refuse a request that is invalid. No model is tried twice for one call.

Only some of the models may have vision. Inside the fallback, `VisionFilter` replaces pictures by text for the others.
"""

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

from fleetwright_a2a.extensions import MODEL
from fleetwright_agent.protocol.frames import Fallback, StreamReset
from fleetwright_agent.telemetry.failure_reasons import ModelFailureReason
from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.context import TurnContext
from fleetwright_agent.turn.images import describe_images
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.model_calls import ModelFailed
from fleetwright_agent.turn.providers.factory import Chat, portable

_REST_SECONDS: Final = 30.0
_PATIENCE_SECONDS: Final = 5.0
"""While another model is available, a call is not retried after a longer delay than this."""
_log = logging.getLogger(__name__)


class ModelFallback:
    def __init__(
        self,
        chats: Sequence[Chat],
        metrics: Metrics,
        *,
        chosen: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Args: `chats` starts with the agent's own model; `chosen` is True if a caller may name the first model."""
        self._chosen = chosen
        self._chats = tuple(chats)
        self._metrics = metrics
        self._monotonic = monotonic
        self._rested = [0.0] * len(self._chats)

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        context: TurnContext = request.runtime.context
        wanted = chosen_model(context) if self._chosen else ""
        order = self._order(wanted)
        first: ModelFailed | None = None
        for place, index in enumerate(order):
            context.patience = _PATIENCE_SECONDS if place + 1 < len(order) else None
            context.stands_in = index > 0 and self._chats[index].endpoint.name != wanted
            try:
                return await call(_to(self._chats[index], request))
            except ModelFailed as failed:
                first = first or failed
                if not failed.failure.elsewhere:
                    raise
                self._rested[index] = self._monotonic() + _REST_SECONDS
                if place + 1 == len(order):
                    raise first from failed
                gone = failed.model or self._chats[index].endpoint.name
                self._tell(context, gone, self._chats[order[place + 1]].endpoint.name, failed.failure.reason)
        raise AssertionError("the loop returns or raises")

    def _order(self, first: str) -> list[int]:
        """Return the order of attempts: the chosen model, the other models as declared, recently failed models last."""
        now = self._monotonic()

        def place(index: int) -> tuple[bool, bool, int]:
            return self._rested[index] > now, self._chats[index].endpoint.name != first, index

        return sorted(range(len(self._chats)), key=place)

    def _tell(self, context: TurnContext, gone: str, comes: str, reason: ModelFailureReason) -> None:
        self._metrics.model_fallbacks.labels(gone, comes, reason).inc()
        _log.warning("another model takes over", extra={"model": gone, "fallback": comes, "reason": reason})
        if context.spoken:
            context.emit(StreamReset(reason))
            context.spoken = False
        if not context.silent:
            context.emit(Fallback(gone, comes, reason))


class VisionFilter:
    """Sends pictures only to models with vision."""

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        if cast("Chat", request.model).endpoint.vision:
            return await call(request)
        return await call(request.override(messages=describe_images(request.messages)))


def chosen_model(context: TurnContext) -> str:
    """The model name that the caller chose; empty for a sub-agent, which uses its declared models."""
    return "" if context.request.sub_agent else str(context.request.metadata.get(MODEL, ""))


def _to(chat: Chat, request: Request) -> Request:
    model: Any = chat
    return request.override(model=model, messages=portable(request.messages, chat.endpoint.provider))
