"""When to compact and where to cut. Pure: messages and numbers in, a decision out."""

from collections.abc import Sequence
from dataclasses import dataclass

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, ToolMessage

from fleetwright_agent.config import Compaction, Model
from fleetwright_agent.turn.compaction.measure import estimate


@dataclass(frozen=True, slots=True)
class Cut:
    """The first `index` messages make way; the rest stays."""

    index: int


def room(model: Model) -> int:
    """Tokens a prompt may have: the window less what is reserved for the answer."""
    return max(1, model.context_window - model.max_output_tokens)


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


def choose_cut(messages: Sequence[AnyMessage], policy: Compaction, *, room: int) -> Cut | None:
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
    index = _whole_pairs(messages, index)
    return Cut(index) if index > 1 else None


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


def active_request(messages: Sequence[AnyMessage]) -> HumanMessage | None:
    """What the caller asked for last; it is shown to the letter whatever happens around it."""
    return next((message for message in reversed(messages) if isinstance(message, HumanMessage)), None)


def repaired(messages: Sequence[AnyMessage]) -> list[AnyMessage]:
    """The same history with every call answered and no answer without its call (T-06, PA-092).

    A turn that was cut short leaves calls without results. Providers refuse such a history, and the next
    turn would be lost with it.
    """
    answers = {message.tool_call_id: message for message in messages if isinstance(message, ToolMessage)}
    history: list[AnyMessage] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            continue
        history.append(message)
        if isinstance(message, AIMessage):
            history.extend(
                answers.get(call["id"] or "", _aborted(call["id"] or "", call["name"])) for call in message.tool_calls
            )
    return history


def _aborted(call_id: str, name: str) -> ToolMessage:
    text = "Aborted: the turn ended before this call did. Whether it took effect is unknown."
    return ToolMessage(text, tool_call_id=call_id, name=name, status="error")
