"""Decides what to do before a model call: nothing, truncate old results, or summarise.

Pure: numbers in, a decision out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.compaction import Compaction, CompactionMode
from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.compaction.measure import estimate
from fleetwright_agent.turn.compaction.pruning import PruneBatch


class CompactionStep(StrEnum):
    NOTHING = "none"
    PRUNE = "prune"
    SUMMARISE = "summary"


@dataclass(frozen=True, slots=True)
class CompactionDecision:
    step: CompactionStep
    trigger: str = ""


_NOTHING = CompactionDecision(CompactionStep.NOTHING)


@dataclass(frozen=True, slots=True)
class PromptState:
    """The state of the next prompt before it is sent."""

    tokens: int
    room: int
    messages: int
    """The number of messages after the summary."""
    leaving: int
    """Tokens of the messages that a summary would replace."""
    batch: PruneBatch | None = None
    """The results that pruning would truncate."""
    cold: bool = False
    """True if the conversation was idle for so long that the provider's cache of this prompt has expired."""
    busy: bool = False
    """True if a tool call has no result yet, or a question to the caller has no answer yet."""
    resting: bool = False
    """True if compaction pauses after a failure."""
    calls_since_summary: int | None = None
    """Model calls since the last summary within this turn; None if there was no summary in this turn."""
    payback: float = 0.0
    """Model calls until a summary made now would have paid for itself."""
    nearly_full: bool = False
    """True if the prompt nearly fills the window, so that the provider may refuse the next prompt."""


def room(model: Model) -> int:
    """Return the maximum tokens of a prompt: the context window minus the tokens reserved for the answer."""
    return max(1, model.window - model.max_output_tokens)


def effective_room(policy: Compaction, room: int) -> int:
    """Return the prompt size from which fractions are computed.

    The declared cap in tokens limits this size, because most of a large window is never used.
    """
    return max(1, min(room, int(policy.trigger.tokens / policy.trigger.context_fraction)))


def due(policy: Compaction, *, tokens: int, messages: int, room: int) -> str | None:
    """Return the name of the trigger that has fired, or None."""
    trigger = policy.trigger
    if tokens >= trigger.tokens:
        return "tokens"
    if tokens >= float(trigger.context_fraction) * room:
        return "fraction"
    if trigger.messages is not None and messages >= trigger.messages:
        return "messages"
    return None


def may_act(policy: Compaction, *, trigger: str | None, tokens: int, room: int, cold: bool) -> bool:
    """Return True if a compaction may be due. Only then does the agent examine the whole conversation."""
    if policy.mode is CompactionMode.OFF:
        return False
    return trigger is not None or cold or _is_filled(policy, tokens, room)


def decide(policy: Compaction, now: PromptState) -> CompactionDecision:
    """Truncate results if that frees enough tokens, because it loses least; otherwise summarise."""
    if policy.mode is CompactionMode.OFF or now.busy or now.resting:
        return _NOTHING
    gain = float(policy.guard.min_gain) * now.tokens
    trigger = due(policy, tokens=now.tokens, messages=now.messages, room=now.room)
    if trigger is None:
        return _early(policy, now)
    if now.batch is not None and now.batch.freed >= gain and trigger != "messages":
        return CompactionDecision(CompactionStep.PRUNE, trigger)
    # A summary must replace more tokens than the minimum gain, or it cannot pay.
    return (
        CompactionDecision(CompactionStep.SUMMARISE, trigger) if now.leaving > gain and _pays_again(now) else _NOTHING
    )


def _pays_again(now: PromptState) -> bool:
    """Return True if another summary within one turn is worth its cost.

    A turn is expected to continue for about as many calls as have passed since its last summary. The first summary of
    a turn is never held back. If the provider would refuse the prompt without a summary, it is not held back either.
    """
    return now.calls_since_summary is None or now.nearly_full or now.payback <= now.calls_since_summary


def _early(policy: Compaction, now: PromptState) -> CompactionDecision:
    """Decide before a trigger fires: truncate results only if that costs nothing or pays for itself soon."""
    if now.batch is None:
        return _NOTHING
    if now.cold:
        return CompactionDecision(CompactionStep.PRUNE, "cold")
    pays = now.batch.payback <= policy.prune.max_payback_calls
    return (
        CompactionDecision(CompactionStep.PRUNE, "payback")
        if pays and _is_filled(policy, now.tokens, now.room)
        else _NOTHING
    )


def _is_filled(policy: Compaction, tokens: int, room: int) -> bool:
    """Return True if the prompt is large enough to truncate results before a trigger fires."""
    return tokens >= float(policy.prune.context_fraction) * room


def choose_cut(messages: Sequence[AnyMessage], policy: Compaction, *, room: int) -> int | None:
    """Return the index at which the kept tail begins, or None if a cut would gain nothing.

    The tail has the smaller of the two declared sizes, but at least the newest message. The tail never begins between
    a call and its results.
    """
    allowed = int(float(policy.keep.context_fraction) * room)
    index = len(messages)
    kept = 0
    while index > 0 and len(messages) - index < policy.keep.messages:
        kept += estimate(messages[index - 1 : index])
        if kept > allowed and index < len(messages):
            break
        index -= 1
    index = _with_its_request(messages, _whole_pairs(messages, index))
    return index if index > 1 else None


def _with_its_request(messages: Sequence[AnyMessage], index: int) -> int:
    """Move the cut to keep the active request in the tail, if the request directly precedes the tail.

    If the request were shown again after the finished work, the model would take the request as not yet done.
    """
    if 0 < index < len(messages) and isinstance(messages[index - 1], HumanMessage):
        return index - 1 if not any(isinstance(later, HumanMessage) for later in messages[index:]) else index
    return index


def _whole_pairs(messages: Sequence[AnyMessage], index: int) -> int:
    """Move a cut between a call and its results: after the results, or before the call if no message would remain."""
    forward = index
    while forward < len(messages) and isinstance(messages[forward], ToolMessage):
        forward += 1
    if forward < len(messages):
        return forward
    back = min(index, len(messages) - 1)
    while back > 0 and isinstance(messages[back], ToolMessage):
        back -= 1
    return back
