"""What to do before a call of the model: nothing, leave old results out, or summarise.

Pure: numbers in, a decision out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from langchain_core.messages import AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config.compaction import Compaction, CompactionMode
from fleetwright_agent.config.model import Model
from fleetwright_agent.turn.compaction.measure import estimate
from fleetwright_agent.turn.compaction.pruning import Batch


class Step(StrEnum):
    NOTHING = "none"
    PRUNE = "prune"
    SUMMARISE = "summary"


@dataclass(frozen=True, slots=True)
class Decision:
    step: Step
    trigger: str = ""


_NOTHING = Decision(Step.NOTHING)


@dataclass(frozen=True, slots=True)
class Situation:
    """What is known of the next prompt before it is sent."""

    tokens: int
    room: int
    messages: int
    """That no summary stands for."""
    leaving: int
    """Tokens that would make way for a summary."""
    batch: Batch | None = None
    """What pruning would leave out."""
    cold: bool = False
    """The provider's cache has surely forgotten this prompt."""
    busy: bool = False
    """A call or an ask is open."""
    resting: bool = False
    """Compaction has failed and waits."""
    calls_since_summary: int | None = None
    """Model calls since the last summary within this turn; None where this turn has made none."""
    payback: float = 0.0
    """Further calls until a summary that is made now would have paid for itself."""
    nearly_full: bool = False
    """The provider is about to refuse the prompt for its size."""


def room(model: Model) -> int:
    """Tokens a prompt may have: the window less what is reserved for the answer."""
    return max(1, model.context_window - model.max_output_tokens)


def effective_room(policy: Compaction, room: int) -> int:
    """The room that the cap in tokens amounts to: of a million tokens, most are never used, and fractions follow."""
    return max(1, min(room, int(policy.trigger.tokens / policy.trigger.context_fraction)))


def due(policy: Compaction, *, tokens: int, messages: int, room: int) -> str | None:
    """The trigger that is reached, or None."""
    trigger = policy.trigger
    if tokens >= trigger.tokens:
        return "tokens"
    if tokens >= float(trigger.context_fraction) * room:
        return "fraction"
    if trigger.messages is not None and messages >= trigger.messages:
        return "messages"
    return None


def may_act(policy: Compaction, *, trigger: str | None, tokens: int, room: int, cold: bool) -> bool:
    """Whether it matters what would make way: to look at that is to look at the whole conversation."""
    if policy.mode is CompactionMode.OFF:
        return False
    return trigger is not None or cold or _is_filled(policy, tokens, room)


def decide(policy: Compaction, now: Situation) -> Decision:
    """Pruning first, because it loses least; a summary where that is not enough."""
    if policy.mode is CompactionMode.OFF or now.busy or now.resting:
        return _NOTHING
    gain = float(policy.guard.min_gain) * now.tokens
    trigger = due(policy, tokens=now.tokens, messages=now.messages, room=now.room)
    if trigger is None:
        return _early(policy, now)
    if now.batch is not None and now.batch.freed >= gain and trigger != "messages":
        return Decision(Step.PRUNE, trigger)
    # What makes way must be large enough to pay for a summary at all.
    return Decision(Step.SUMMARISE, trigger) if now.leaving > gain and _pays_again(now) else _NOTHING


def _pays_again(now: Situation) -> bool:
    """Whether a further summary within one turn is worth its cost.

    A turn is expected to go on for about as many calls as have passed since its last summary. The first summary of a
    turn is never held back, and neither is one without which the provider would refuse the prompt.
    """
    return now.calls_since_summary is None or now.nearly_full or now.payback <= now.calls_since_summary


def _early(policy: Compaction, now: Situation) -> Decision:
    """Before a trigger, only what costs nothing or comes back soon."""
    if now.batch is None:
        return _NOTHING
    if now.cold:
        return Decision(Step.PRUNE, "cold")
    pays = now.batch.payback <= policy.prune.max_payback_calls
    return Decision(Step.PRUNE, "payback") if pays and _is_filled(policy, now.tokens, now.room) else _NOTHING


def _is_filled(policy: Compaction, tokens: int, room: int) -> bool:
    """Enough for pruning to begin before a trigger."""
    return tokens >= float(policy.prune.context_fraction) * room


def choose_cut(messages: Sequence[AnyMessage], policy: Compaction, *, room: int) -> int | None:
    """Where the kept tail begins, or None where nothing would be gained.

    The tail is the smaller of the two declared sizes, but never less than the newest message, and it
    never begins between a call and its results (T-14).
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
    """Where the request under way stands right before the tail it stays there: shown again behind what was done for
    it, it reads as one that is still to be done.
    """
    if 0 < index < len(messages) and isinstance(messages[index - 1], HumanMessage):
        return index - 1 if not any(isinstance(later, HumanMessage) for later in messages[index:]) else index
    return index


def _whole_pairs(messages: Sequence[AnyMessage], index: int) -> int:
    """Moves a cut forward past results of a call that goes; back before the call where nothing would be left."""
    forward = index
    while forward < len(messages) and isinstance(messages[forward], ToolMessage):
        forward += 1
    if forward < len(messages):
        return forward
    back = min(index, len(messages) - 1)
    while back > 0 and isinstance(messages[back], ToolMessage):
        back -= 1
    return back
