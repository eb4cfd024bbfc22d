"""Shows the model a view of the conversation that fits, and makes a new view when it no longer does.

Outermost link: it decides from a measured prompt, replaces the view through the reply's state update, and
when the provider itself refuses the size it compacts once by force and tries once more (PA-096). A failed
compaction changes nothing; after three in a row it waits for the user's next message.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from langchain.agents.middleware import ModelResponse
from langchain.agents.middleware.types import ExtendedModelResponse
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.types import Command

from fleetwright_agent.config import Compaction as Policy
from fleetwright_agent.config import CompactionMode, Model
from fleetwright_agent.metrics import Metrics
from fleetwright_agent.turn.compaction.measure import estimate, prompt_tokens
from fleetwright_agent.turn.compaction.policy import choose_cut, due, room
from fleetwright_agent.turn.compaction.summary import SummaryFailed, extract, summarise
from fleetwright_agent.turn.compaction.view import shown, tail
from fleetwright_agent.turn.context import TurnContext, TurnState, View
from fleetwright_agent.turn.frames import CompactionEnd, CompactionStart, Purpose
from fleetwright_agent.turn.middleware.composite import ModelCall, Reply, Request
from fleetwright_agent.turn.middleware.model_calls import ModelFailed, account

_MIN_GAIN = 0.2
_MAX_FAILURES = 3


@dataclass(frozen=True, slots=True)
class _Outcome:
    view: View | None
    failures: int


class CompactionLink:
    def __init__(self, policy: Policy, model: Model, metrics: Metrics) -> None:
        self._policy = policy
        self._model = model
        self._metrics = metrics
        self._room = room(model)

    async def around_model(self, request: Request, call: ModelCall) -> Reply:
        state = _state(request)
        before = _Outcome(state.get("view"), state.get("compaction_failures", 0))
        after = await self._when_due(request, before)
        try:
            reply = await call(self._showing(request, after.view))
        except ModelFailed as refused:
            if not refused.failure.overflow or self._policy.mode is not CompactionMode.ENFORCE:
                raise
            after, reply = await self._after_overflow(request, call, after, refused)
        if after == before:
            return reply
        response = reply if isinstance(reply, ModelResponse) else reply.model_response
        update = {"view": after.view, "compaction_failures": after.failures}
        return ExtendedModelResponse(response, Command(update=update))

    def _showing(self, request: Request, view: View | None) -> Request:
        return request.override(messages=shown(request.messages, view, _state(request).get("prior_sessions", "")))

    def _measured(self, request: Request, view: View | None) -> int:
        return prompt_tokens(
            self._showing(request, view).messages,
            system=request.system_prompt or "",
            tools=[tool for tool in request.tools if isinstance(tool, dict)],
            trusted_from=view["newest"] if view else None,
        )

    async def _when_due(self, request: Request, now: _Outcome) -> _Outcome:
        tokens = self._measured(request, now.view)
        self._metrics.context_fill.observe(tokens / self._room)
        if self._policy.mode is CompactionMode.OFF or now.failures >= _MAX_FAILURES:
            return now
        kept = tail(request.messages, now.view)
        trigger = due(self._policy, tokens=tokens, messages=len(kept), room=self._room)
        if trigger is None or not self._worthwhile(kept, tokens):
            return now
        context: TurnContext = request.runtime.context
        if self._policy.mode is CompactionMode.OBSERVE:
            if not context.observed:
                self._metrics.compactions.labels(trigger, "none", "observed").inc()
            context.observed = True
            return now
        return await self._compact(request, now, trigger, tokens)

    def _worthwhile(self, kept: Sequence[AnyMessage], tokens: int) -> bool:
        """Whether what would make way is large enough to pay for a summary at all."""
        cut = choose_cut(kept, self._policy, room=self._room)
        return cut is not None and estimate(kept[: cut.index]) > _MIN_GAIN * tokens

    async def _after_overflow(
        self, request: Request, call: ModelCall, now: _Outcome, refused: ModelFailed
    ) -> tuple[_Outcome, Reply]:
        after = await self._compact(request, now, "overflow", self._measured(request, now.view))
        if after.view == now.view:
            self._metrics.overflow_recoveries.labels("failed").inc()
            raise refused
        try:
            reply = await call(self._showing(request, after.view))
        except ModelFailed as again:
            self._metrics.overflow_recoveries.labels("failed").inc()
            raise refused from again
        self._metrics.overflow_recoveries.labels("recovered").inc()
        return after, reply

    async def _compact(self, request: Request, now: _Outcome, trigger: str, tokens: int) -> _Outcome:
        context: TurnContext = request.runtime.context
        kept = tail(request.messages, now.view)
        cut = choose_cut(kept, self._policy, room=self._room)
        if cut is None:
            return now
        started = time.perf_counter()
        context.emit(CompactionStart(tokens))
        method = "extract" if trigger == "overflow" else "summary"
        try:
            text = await self._text(request, now.view, kept[: cut.index], method)
            view = View(cut=kept[cut.index - 1].id or "", summary=text, newest=request.messages[-1].id or "")
            smaller = self._measured(request, view)
            if smaller > (1 - _MIN_GAIN) * self._measured(request, _untrusted(now.view, request.messages)):
                raise SummaryFailed("no_gain")
        except SummaryFailed as failed:
            self._spent(context, failed.reply)
            self._metrics.compaction_failures.labels(failed.reason).inc()
            self._finish(context, started, (trigger, method, "failed"), tokens, tokens)
            return _Outcome(now.view, now.failures + 1)
        self._finish(context, started, (trigger, method, "ok"), tokens, smaller)
        return _Outcome(view, 0)

    async def _text(self, request: Request, view: View | None, leaving: Sequence[AnyMessage], method: str) -> str:
        if method == "extract":
            return extract(leaving, self._policy.summary, earlier=view["summary"] if view else "")
        prefix = shown(
            [*request.messages[: len(request.messages) - len(tail(request.messages, view))], *leaving], view, ""
        )
        summary = await summarise(request.model, request.system_message, prefix, self._policy.summary)
        self._spent(request.runtime.context, summary.reply)
        return summary.text

    def _spent(self, context: TurnContext, reply: AIMessage | None) -> None:
        if reply is not None:
            self._metrics.llm_calls.labels(self._model.name, "ok").inc()
            context.emit(account(reply, self._model, self._metrics, Purpose.SUMMARY))

    def _finish(
        self, context: TurnContext, started: float, labels: tuple[str, str, str], before: int, after: int
    ) -> None:
        self._metrics.compactions.labels(*labels).inc()
        self._metrics.compaction_seconds.observe(time.perf_counter() - started)
        self._metrics.compaction_tokens.labels("before").inc(before)
        self._metrics.compaction_tokens.labels("after").inc(after)
        context.emit(CompactionEnd(labels[2], before, after))


def _state(request: Request) -> TurnState:
    return cast("TurnState", request.state)


def _untrusted(view: View | None, messages: Sequence[AnyMessage]) -> View | None:
    """The same view measured by estimate alone, so that both sides of the comparison are estimates."""
    newest = messages[-1].id or ""
    return (
        View(cut=view["cut"], summary=view["summary"], newest=newest)
        if view
        else View(cut="", summary="", newest=newest)
    )
