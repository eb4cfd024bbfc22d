"""Builds the messages that the model sees from a stored conversation. Pure; the stored messages never change.

The order is: prior sessions, pins, summary, kept tail. If the view replaced the active request, the request is shown
again, verbatim, after the messages that existed when the view was made. The content of a view is fixed, so that the
provider's prompt cache lasts from one compaction to the next.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage

from fleetwright_agent.turn.compaction.pairs import active_request, repair_pairs
from fleetwright_agent.turn.compaction.pruning import Shape, shorten_results

if TYPE_CHECKING:  # These modules are slow to import, and a conversation without a view does not need them.
    from fleetwright_agent.turn.compaction.ledger import LedgerEntry
    from fleetwright_agent.turn.compaction.pin_message import PinMessage
    from fleetwright_agent.turn.compaction.pins import Pin
    from fleetwright_agent.turn.compaction.summary import ComposedSummary


@dataclass(frozen=True, slots=True)
class View:
    """The stored result of a compaction: the messages up to and including `cut` are shown as `summary`."""

    cut: str = ""
    """The id of the last replaced message; empty if none is replaced."""
    newest: str = ""
    """The id of the newest message when the view was made. Token counts of earlier messages are for another prompt."""
    request: str = ""
    """The id of the active request, if the cut removed it."""
    behind: str = ""
    """The id of the message after which that request is shown again."""
    summary: str = ""
    ledger: "tuple[LedgerEntry, ...]" = ()
    pins: "tuple[Pin, ...]" = ()
    pinned: str = ""
    """The text of the message with the pins."""
    digest: str = ""
    """The digest of `pinned`."""
    pruned: Mapping[str, Shape] = field(default_factory=dict)
    """How many characters of each truncated message are shown, by message id."""


def summarised_view(
    stored: Sequence[AnyMessage],
    until: int,
    *,
    old: View | None,
    summary: "ComposedSummary",
    pins: "Sequence[Pin]",
    shown: "PinMessage",
) -> View:
    """Return the view in which a summary replaces the stored messages before the index `until`."""
    staying = {message.id for message in stored[until:]}
    request = active_request(stored)
    newest = stored[-1].id or ""
    taken = request is not None and request.id not in staying
    return View(
        cut=stored[until - 1].id or "",
        newest=newest,
        request=request.id or "" if request is not None and taken else "",
        behind=newest if taken else "",
        summary=summary.text,
        ledger=summary.ledger,
        pins=tuple(pins),
        pinned=shown.text,
        digest=shown.digest,
        pruned={name: shape for name, shape in (old.pruned if old else {}).items() if name in staying},
    )


@dataclass(frozen=True, slots=True)
class CompactionState:
    """The compaction state of one conversation."""

    view: View | None = None
    failures: int = 0
    """Failures since the last success."""
    retry_at: int = 0
    """The number of stored model answers at which compaction is tried again after a failure.

    A count of answers survives a restart and needs no write at each model call.
    """

    def with_attempt(self, *, most: int) -> "CompactionState":
        """Return the state that allows one more attempt if `most` attempts have failed."""
        return replace(self, failures=most - 1, retry_at=0) if self.failures >= most else self


def position(messages: Sequence[AnyMessage], identity: str) -> int:
    """Return the number of messages up to and including the one with this id, or 0 if the id is unknown."""
    if not identity:
        return 0
    return next((i + 1 for i in range(len(messages) - 1, -1, -1) if messages[i].id == identity), 0)


def tail(messages: Sequence[AnyMessage], view: View | None) -> list[AnyMessage]:
    """The stored messages after the cut; all of them if the cut is unknown."""
    return list(messages[position(messages, view.cut) if view else 0 :])


def head(view: View | None, prior_sessions: str) -> list[AnyMessage]:
    """The messages before the tail."""
    texts = [prior_sessions, *([view.pinned, view.summary] if view else [])]
    return [HumanMessage(text) for text in texts if text]


def visible_messages(messages: Sequence[AnyMessage], view: View | None, prior_sessions: str) -> list[AnyMessage]:
    """The messages of the next model call, in a form that every provider accepts."""
    if view is None:
        return [*head(None, prior_sessions), *repair_pairs(messages)]
    begin = position(messages, view.cut)
    if view.cut and not begin:
        # The place of the summary in the conversation is unknown, so show all messages instead.
        return [*head(None, prior_sessions), *repair_pairs(messages)]
    until = max(begin, position(messages, view.behind))
    kept = shorten_results(messages[begin:], view.pruned)
    before, later = kept[: until - begin], kept[until - begin :]
    asked = position(messages[:begin], view.request)
    again = messages[asked - 1 : asked] if asked else []
    return [
        *head(view, prior_sessions),
        *answered(messages, begin),
        *repair_pairs(before),
        *answered(messages, asked - 1),
        *again,
        *repair_pairs(later),
    ]


def answered(messages: Sequence[AnyMessage], index: int) -> Sequence[AnyMessage]:
    """Return the agent's question before the message at the index. An answer such as "yes" is unclear without it."""
    question = messages[index - 1 : index] if 0 < index < len(messages) else []
    if any(isinstance(m, AIMessage) and not m.tool_calls and m.text.rstrip().endswith("?") for m in question):
        return question if isinstance(messages[index], HumanMessage) else []
    return []
