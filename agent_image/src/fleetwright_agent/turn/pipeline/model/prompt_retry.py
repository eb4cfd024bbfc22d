"""Repairs and resends a prompt that the provider refused as invalid.

The first repair normalises the messages, and the second repair replaces the last tool results. Repairs are not stored.
"""

from fleetwright_agent.telemetry.metrics import Metrics
from fleetwright_agent.turn.pipeline.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.pipeline.model.model_calls import ModelFailed
from fleetwright_agent.turn.pipeline.model.prompt_repair import clean_messages, withhold_results


class PromptRetry:
    def __init__(self, most: int, metrics: Metrics) -> None:
        """Args: `most` is the maximum number of repairs."""
        self._mends = (clean_messages, withhold_results)[:most]
        self._metrics = metrics

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        try:
            return await call(request)
        except ModelFailed as refused:
            if not refused.failure.refuses_prompt:
                raise
            return await self._mended(request, call, refused)

    async def _mended(self, request: Request, call: ModelCall, refused: ModelFailed) -> Reply:
        sent = list(request.messages)
        for mend in self._mends:
            mended = mend(sent)
            if mended == sent:
                continue
            sent = mended
            try:
                reply = await call(request.override(messages=sent))
            except ModelFailed as again:
                if not again.failure.refuses_prompt:
                    raise
            else:
                self._metrics.mended_requests.labels("answered").inc()
                return reply
        self._metrics.mended_requests.labels("refused").inc()
        raise refused
